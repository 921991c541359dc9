"""Workflows that send events themselves: the row of the table, who sends what, and I37.

They come on top of a scenario, from dice of their own, and send what clients send as well.
"""

from __future__ import annotations

import json
from collections import Counter
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

# In how many scenarios workflows send.
_SHARE = 0.3
# Of the steps of these programs: no other program has such numbers.
_FIRST_NUMBER = 5_000_000
# How the last part of the id of an event begins that a workflow has sent.
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


# Weightless: no other program has one, and all of them are as they would be without this file.
add({"send": Row(weight=0, make=_make_send, run=_run_send, fits=_fits_send)})


def make_senders(seed: int, sends: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Workflows that send what clients send too, with steps in between; or nothing."""
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
    """An event that a body has sent turns up in the commit in which the body has learnt that it is sent, and only then.
    It expires when its kind says.

    The former is not asked where a workflow begins another round or is forked, which leaves no trace of the one or a
    second of the other; nor where events are thrown away with their workflow.
    """
    for event in batch.events_put.values():
        lasts = event_of(event.name).expire_after_us
        expires_at = None if lasts is None else event.sent_at + lasts
        is_sent = _name(event.payload) is not None and event.payload not in ledger.mail.replayed
        if is_sent and event.expires_at != expires_at:
            raise Violation("I37", f"event {event.payload} expires at {event.expires_at}, and not at {expires_at}")
    if ledger.shards > 1:
        # It may turn up in another shard, and its sender learns of that later. Lost, it never learns (I29).
        return
    is_forked = any(entry.kind is EntryKind.FORKED for _, entry in batch.history)
    if batch.restarted or is_forked or ledger.mail.policy is DeadLetterPolicy.DISCARD:
        return
    entries = (entry for _, entry in batch.history if entry.kind is EntryKind.SEND)
    learnt = Counter(entry.name for entry in entries if entry.status is EntryStatus.OK)
    sent = Counter(filter(None, map(_name, ledger.mail.fresh)))
    if learnt != sent:
        raise Violation("I37", f"bodies have learnt that they have sent {learnt}, and {sent} turns up")


def _name(payload: str) -> str | None:
    """The name of an event that a workflow has sent, as histories call it."""
    name, key, id = json.loads(payload.strip("[]")).split("/")
    return event_step(name, "" if key == "None" else key) if id.startswith(_BY_BODY) else None
