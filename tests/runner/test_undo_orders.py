"""Undos in whatever order things happen: every step that is owed is undone once, and a replay is always the same."""

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
    """Charges one after the other, each with its undo."""
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
    """Everything inside everything."""
    yield from charge(1).undo(twice)
    one = yield from race(saga(deep(10)), saga(pay(20, 21)), sleep(60))
    two = yield from gather(saga(deep(30)), caught(race(saga(pay(40, 41)), pay(42))))
    yield from charge(50).undo(refund)
    return one.key, two[1]


# Each example replays a long tale after every entry.
@settings(max_examples=30)
@given(st.data())
def test_every_step_is_undone_once_whatever_happens(data: st.DataObject) -> None:
    """Waits are answered in any order, well or badly, with a cancellation at any time: all of it adds up."""
    tale = Tale(everything)
    is_cancelled = False
    while isinstance(tale.result, Suspended):
        position = data.draw(st.sampled_from(sorted(tale.session.waits)))
        what = data.draw(st.sampled_from(["ok"] * 12 + ["fails", "cancelled"]))
        is_activity = tale.session.waits[position].name in ("charge", "refund")
        if what == "cancelled" and not is_cancelled:
            is_cancelled = True
            tale.cancelled("stop")
        elif what == "fails" and is_activity:
            tale.fails(position, Declined(position))
        else:
            tale.ok(position)
    done = {one.position for one in tale.entries if one.name == "charge" and one.status is EntryStatus.OK}
    undos = [one for one in tale.entries if one.name == "refund"]
    failed = [one for one in undos if one.status is EntryStatus.ERROR]
    assert len({one.position for one in undos}) == len(undos) <= len(done)
    assert len(tale.session.failed_undos()) == len(failed)
    if isinstance(tale.result, Completed):
        assert not is_cancelled
        assert not any(one.position.startswith("u.") for one in undos)
    else:
        assert len(undos) == len(done)
        assert isinstance(tale.error, Cancelled if is_cancelled else Declined)
