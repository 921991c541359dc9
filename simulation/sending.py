"""Workflows that send events themselves: the row, the workflows that a scenario adds for it, and I37.

They are added to a scenario from separate dice, and send the same kinds of events as its clients.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator
from typing import Any

from durable.backends.base import Batch
from durable.errors import PendingEventsFull, WorkflowNotFound, WorkflowTerminated
from durable.model.records import DeadLetterPolicy, EntryKind, EntryStatus
from durable.runner.definitions import Durable
from durable.runner.determinism import uuid
from durable.runner.events import event_step
from simulation.dice import Dice
from simulation.kinds import event_of
from simulation.ledger import Ledger
from simulation.rows import ROWS, Maker, Row, add
from simulation.steps import Step, to_json
from simulation.violation import Violation

# The share of scenarios in which workflows send.
_SHARE = 0.3
# The first number of the steps of these programs. No other program has such numbers.
_FIRST_NUMBER = 5_000_000
# The last part of the id of an event that a workflow sent begins with this.
_BY_BODY = "body"


def _make_send(maker: Maker) -> Step:
    return maker.step("send", event="shared-0", key=None, to=None)


def _run_send(step: Step) -> Durable[Any]:
    name, key = step["event"], step["key"]
    payload = f"{name}/{key}/{_BY_BODY}{step.n}-{uuid().hex}"
    try:
        yield from event_of(name).send(payload, to=step["to"], key=key)
    except (WorkflowNotFound, WorkflowTerminated, PendingEventsFull):
        return ["unsent", step.n]
    return ["sent", step.n]


def _fits_send(step: Step, value: Any) -> bool:
    return value in (["sent", step.n], ["unsent", step.n])


# Without weight: no other program gets such a step, so all of them are the same as if this file did not exist.
add({"send": Row(weight=0, make=_make_send, run=_run_send, fits=_fits_send)})


def make_senders(seed: int, sends: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Acts that start workflows which send the same as some of the given sends, with steps in between; or none."""
    dice = Dice(f"senders {seed}")
    if not dice.chance(_SHARE):
        return
    shown = [send for send in sends if not send.get("is_early")]
    for index in range(dice.between(1, 2)):
        maker = Maker(dice, _FIRST_NUMBER * (index + 1), is_known=False)
        steps = [step for send in shown if dice.chance(0.5) for step in _sending(maker, send)]
        if steps:
            program = maker.step("rounds", maker.step("sequence", *steps), publishes=False)
            at = dice.below(20_000)
            yield {
                "client": 900 + index,
                "at": at,
                "verb": "START",
                "id": f"sender{index}",
                "program": to_json(program),
            }


def _sending(maker: Maker, send: dict[str, Any]) -> Iterator[Step]:
    yield maker.step("send", event=send["event"], key=send.get("key"), to=send.get("id"))
    if maker.dice.chance(0.4):
        yield ROWS[maker.dice.weighted({"sleep": 2, "work": 1})].make(maker)


def i37_what_a_body_sends_is_there(ledger: Ledger, batch: Batch, now: int) -> None:
    """An event that a body sends appears in the commit that records the send, and only then, with the right expiry.

    The first part is not checked if a workflow begins another round in the commit (the entry is gone) or is forked (the
    entry is copied), nor if the policy discards events with their workflow.
    """
    for event in batch.events_put.values():
        lasts = event_of(event.name).expire_after_us
        expires_at = None if lasts is None else event.sent_at + lasts
        is_sent = _name(event.payload) is not None and event.payload not in ledger.mail.replayed
        if is_sent and event.expires_at != expires_at:
            raise Violation("I37", f"event {event.payload} expires at {event.expires_at}, and not at {expires_at}")
    if ledger.shards > 1:
        # It may appear in another shard, and its sender gets the answer later. A lost event leaves it waiting (I29).
        return
    if batch.restarted or ledger.entries(EntryKind.FORKED) or ledger.mail.policy is DeadLetterPolicy.DISCARD:
        return
    recorded = sorted(entry.name for _, entry in ledger.entries(EntryKind.SEND) if entry.status is EntryStatus.OK)
    sent = sorted(filter(None, map(_name, ledger.mail.fresh)))
    if recorded != sent:
        raise Violation("I37", f"bodies have recorded that they sent {recorded}, and {sent} appears")


@functools.lru_cache(4096)
def _name(payload: str) -> str | None:
    """The name that histories give to an event that a workflow sent; None for an event from a client."""
    name, key, id = json.loads(payload.strip("[]")).split("/")
    return event_step(name, "" if key == "None" else key) if id.startswith(_BY_BODY) else None
