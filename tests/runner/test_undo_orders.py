"""Undos in random orders: every owed undo runs once, and a replay is always the same."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from durable.errors import Cancelled
from durable.model.records import EntryStatus
from durable.runner.combinators import gather, race
from durable.runner.definitions import Durable, activity, workflow
from durable.runner.ops import sleep
from durable.runner.results import Completed, Suspended
from durable.runner.undo import saga
from tests.runner.builders import Declined, charge
from tests.runner.tale import Tale


@activity
def refund(amount: int) -> None:
    """Undoes a charge."""


def twice(amount: int) -> Durable[None]:
    """An undo with two steps and branches in it."""
    yield from refund(amount)
    yield from gather(sleep(5), sleep(6))


def pay(*amounts: int) -> Durable[int]:
    """Charges in turn, each with its undo."""
    for amount in amounts:
        yield from charge(amount).undo(refund if amount % 2 else twice)
    return sum(amounts)


def caught(body: Any) -> Durable[str]:
    """A saga whose error is swallowed."""
    try:
        yield from saga(body)
    except Declined as error:
        return f"caught {error}"
    return "fine"


def deep(first: int) -> Durable[Any]:
    """Sagas in branches in a saga."""
    yield from charge(first).undo(refund)
    return (yield from gather(saga(pay(first + 1, first + 2)), caught(pay(first + 3, first + 4)), pay(first + 5)))


@workflow(name="runner.undo.orders")
def everything() -> Durable[Any]:
    """Everything nested in everything."""
    yield from charge(1).undo(twice)
    winner = yield from race(saga(deep(10)), saga(pay(20, 21)), sleep(60))
    pair = yield from gather(saga(deep(30)), caught(race(saga(pay(40, 41)), pay(42))))
    yield from charge(50).undo(refund)
    return winner.key, pair[1]


# Each example replays a long tale after every entry.
@settings(max_examples=30)
@given(st.data())
def test_every_step_is_undone_once_whatever_happens(data: st.DataObject) -> None:
    """Waits are answered in any order, well or badly, with a cancellation at any time: the undos always add up."""
    tale = Tale(everything)
    is_cancelled = False
    while isinstance(tale.result, Suspended):
        position = data.draw(st.sampled_from(sorted(tale.session.waits)))
        event = data.draw(st.sampled_from(["ok"] * 12 + ["fails", "cancelled"]))
        is_activity = tale.session.waits[position].name in ("charge", "refund")
        if event == "cancelled" and not is_cancelled:
            is_cancelled = True
            tale.cancelled("stop")
        elif event == "fails" and is_activity:
            tale.fails(position, Declined(position))
        else:
            tale.ok(position)
    done = {entry.position for entry in tale.entries if entry.name == "charge" and entry.status is EntryStatus.OK}
    undos = [entry for entry in tale.entries if entry.name == "refund"]
    failed = [entry for entry in undos if entry.status is EntryStatus.ERROR]
    assert len({entry.position for entry in undos}) == len(undos) <= len(done)
    assert len(tale.session.failed_undos()) == len(failed)
    if isinstance(tale.result, Completed):
        assert not is_cancelled
        assert not any(entry.position.startswith("u.") for entry in undos)
    else:
        assert len(undos) == len(done)
        assert isinstance(tale.error, Cancelled if is_cancelled else Declined)
