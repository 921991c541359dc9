"""The undos that steps of rounds owe, the cancellation of loops, and the rounds that are held for undos."""

from __future__ import annotations

from typing import Any

import pytest

from durable.errors import Cancelled
from durable.model.clock import SECOND
from durable.model.records import EntryKind, EntryStatus, HistoryEntry
from durable.runner.combinators import gather, race
from durable.runner.definitions import Durable, activity, workflow
from durable.runner.loops import Break, Continue, loop
from durable.runner.ops import Op, sleep
from durable.runner.past import Retried
from durable.runner.undo import saga
from tests.runner.builders import Declined, approval, charge, notify, seconds
from tests.runner.tale import Tale

Next = Continue[int] | Break[Any]


@activity(name="refund")
def refund(amount: int) -> None:
    """Undoes a charge."""


def booking(number: int) -> Durable[Next]:
    """A round whose step has an undo from the second round on; the fifth fails."""
    if number < 2:
        yield from charge(number)
    else:
        yield from charge(number).undo(refund)
    if number == 5:
        raise Declined("full")
    return Continue(number + 1)


def circling(body: Any, keep: int = 0) -> Any:
    """A workflow that is one loop."""

    @workflow(name="w")
    def definition() -> Durable[Any]:
        return (yield from loop(body, 0, keep=keep))

    return definition


@pytest.mark.parametrize("restarts", [False, True])
def test_steps_of_rounds_are_undone_in_reverse(restarts: bool) -> None:
    """When the loop fails, the steps of its rounds are undone in reverse, even with a restart in between."""
    tale = Tale(circling(booking))
    while not (place := next(iter(tale.open))).startswith("u."):
        tale.ok(place)
        if restarts:
            tale.restart()
    assert [*tale.open.values()] == ["refund 5"]
    undone: list[str] = []
    while tale.session.waits:
        undone += tale.open.values()
        tale.ok(*tale.open)
        if restarts and tale.session.waits:
            tale.restart()
    assert undone == [f"refund {number}" for number in (5, 4, 3, 2)]
    assert str(tale.error) == "full"


def test_rounds_that_owe_something_are_held() -> None:
    """Rounds before the first one that owes an undo are trimmed; the others stay, and a replay begins with it."""
    tale = Tale(circling(booking)).ok("0.0.0", "0.1.1", "0.2.1", "0.3.1", "0.4.1").restart()
    assert tale.recorded == ["0.2.0*", "0.2.1", "0.3.0*", "0.3.1", "0.4.0*", "0.4.1", "0.5.0*"]
    assert tale.owed == ["refund 0.4.1", "refund 0.3.1", "refund 0.2.1"]


def test_round_without_an_entry_can_owe_something() -> None:
    """A step that resolves at once owes its undo too, and a replay begins with the round before it."""

    def body(number: int) -> Durable[Next]:
        yield from charge(number) if number != 1 else sleep(0).undo(lambda _: notify("undone"))
        if number == 4:
            raise Declined("full")
        return Continue(number + 1)

    tale = Tale(circling(body)).ok("0.0.0", "0.2.0", "0.3.1").restart()
    assert tale.recorded == ["0.1.0*", "0.2.0", "0.3.0*", "0.3.1", "0.4.0*"]
    tale.ok("0.4.1").restart()
    assert tale.open == {"u.0.0": "notify undone"}


def test_cancellation_reaches_the_round_and_ends_the_loop() -> None:
    """The round gets `Cancelled` and may clean up; no other round follows, whatever it returns. Then undos run."""

    def body(number: int) -> Durable[Next]:
        try:
            yield from charge(number).undo(refund)
            yield from approval.wait()
        except Cancelled:
            yield from notify("cleaned up")
        return Continue(number + 1)

    tale = Tale(circling(body)).ok("0.0.0", "0.0.1", "0.1.1").restart().cancelled("enough").restart()
    assert tale.open == {"0.1.3": "notify cleaned up"}
    tale.ok("0.1.3")
    assert tale.open == {"u.0.0": "refund 1"}
    tale.restart().ok("u.0.0").restart().ok("u.1.0")
    assert isinstance(tale.error, Cancelled)


def test_undo_of_a_loop_is_owed_once_it_has_ended() -> None:
    """`loop(...).undo(fn)` undoes the whole loop, with its result."""

    def body(number: int) -> Durable[Next]:
        yield from charge(number)
        return Continue(number + 1) if number < 3 else Break(number)

    @workflow(name="w")
    def definition() -> Durable[Any]:
        yield from loop(body, 0, keep=0).undo(refund)
        yield from notify()
        raise Declined("late")

    tale = Tale(definition).ok("0.0.0", "0.1.1", "0.2.1", "0.3.1").restart()
    assert tale.owed == ["refund 0"]
    assert tale.ok("1").open == {"u.0.0": "refund 3"}


def test_undo_may_be_a_loop() -> None:
    """Its rounds are trimmed as usual, a cancellation does not reach them, and a restart resumes with the last one."""

    def backwards(number: int) -> Durable[Next]:
        yield from notify(str(number))
        return Continue(number - 1) if number else Break(None)

    def undo(amount: int) -> Op[None]:
        return loop(backwards, amount, keep=0)

    @workflow(name="w")
    def definition() -> Durable[Any]:
        yield from charge(3).undo(undo)
        raise Declined("no")

    tale = Tale(definition).ok("0", "u.0.0.0.0").restart().cancelled().restart().ok("u.0.0.1.1").restart()
    assert tale.open == {"u.0.0.2.1": "notify 1"}
    tale.ok("u.0.0.2.1", "u.0.0.3.1")
    assert isinstance(tale.error, Cancelled)
    assert isinstance(tale.error.__cause__, Declined)


# --- sagas in rounds --------------------------------------------------------------------------------------------------


def trying(number: int) -> Durable[Next]:
    """A round that undoes its own step and continues."""
    try:
        yield from saga(failing(number))
    except Declined:
        yield from notify()
    return Continue(number + 1)


def failing(number: int) -> Durable[None]:
    """A step with an undo, then an error."""
    yield from charge(number).undo(refund)
    raise Declined("no")


def test_rounds_that_owe_nothing_any_more_are_trimmed() -> None:
    """A round whose saga failed and was undone is like any other: it is neither held nor replayed."""
    tale = Tale(circling(trying, keep=1))
    for _ in range(12):
        tale.ok(*tale.open)
    assert tale.open == {"0.4.1.0.0": "charge 4"}
    assert tale.recorded == ["0.3.0*", "0.3.1.0.0", "0.3.1.u.0.0", "0.3.2", "0.4.0*"]


def test_round_is_held_while_one_of_its_undos_is_owed() -> None:
    """Of two sagas in a round one has failed and one has not: the round and those after it are still needed."""

    def body(number: int) -> Durable[Next]:
        if number < 2:
            yield from saga(charge(number + 100).undo(refund))
        return (yield from trying(number))

    tale = Tale(circling(body))
    for _ in range(4 + 4 + 3):
        tale.ok(*tale.open).restart()
    assert tale.open == {"0.3.1.0.0": "charge 3"}
    assert tale.owed == ["refund 0.1.1.0.0", "refund 0.0.0.0.0"]
    assert tale.recorded[0] == "0.0.0.0.0"
    tale.cancelled()
    assert tale.restart().open == {"u.0.0": "refund 101"}


def test_failed_undo_is_still_reported_at_the_end() -> None:
    """A round with a failed undo is held, so that the end of the workflow reports it, even after a restart."""

    def body(number: int) -> Durable[Next]:
        if number == 0:
            return (yield from trying(number))
        yield from charge(number)
        return Continue(number + 1)

    tale = Tale(circling(body)).ok("0.0.0.0.0").fails("0.0.0.u.0.0", Declined("bank closed"))
    tale.ok("0.0.1", "0.1.1", "0.2.1").restart()
    assert tale.failed == ["refund 0.0.0.0.0 bank closed"]
    tale.cancelled()
    assert tale.failed == ["refund 0.0.0.0.0 bank closed"]


def test_outer_rounds_are_held_and_let_go_with_the_inner_ones() -> None:
    """A saga in a round of an inner loop holds the outer round as well, and both are trimmed once it is undone."""

    def outer(number: int) -> Durable[Next]:
        yield from loop(inner, 0, keep=0)
        return Continue(number + 1)

    def inner(number: int) -> Durable[Next]:
        verdict = yield from trying(number)
        return verdict if number < 1 else Break(None)

    tale = Tale(circling(outer))
    for _ in range(6 + 6 + 1):
        tale.ok(*tale.open).restart()
    assert tale.open == {"0.2.1.0.0.u.0.0": "refund 0"}
    assert tale.recorded == ["0.2.0*", "0.2.1.0.0.0.0"]


def test_saga_that_is_closed_in_a_round_lets_it_go() -> None:
    """A saga that lost a race is undone before the round ends, and then the round is trimmed."""

    def losing() -> Durable[None]:
        yield from charge(1).undo(refund)
        yield from sleep(99)

    def body(number: int) -> Durable[Next]:
        yield from race(saga(losing()), approval.wait())
        return Continue(number + 1)

    tale = Tale(circling(body)).ok("0.0.0.0.0.0.0", "0.0.0.1.0").restart().ok("0.0.0.0.0.u.0.0")
    assert tale.recorded == ["0.1.0*"]


# --- a retry by an operator -------------------------------------------------------------------------------------------


def test_limit_that_a_retry_has_put_off_stays_so() -> None:
    """If a workflow failed in a round and was retried, limits around the loop end later from then on."""

    def body(number: int) -> Durable[Next]:
        yield from charge(number)
        return Continue(number + 1)

    @workflow(name="w")
    def definition() -> Durable[Any]:
        yield from gather(loop(body, 0, keep=0), approval.wait().within(100))

    tale = Tale(definition).ok("0.0.0.0.0", "0.0.0.1.1")
    text = Retried([], 50 * SECOND).text()
    seq = tale.seq + 1
    tale.feed(HistoryEntry(seq, "0.0.0.2.1", EntryKind.RETRIED, "retry", EntryStatus.OK, text, seconds(seq)))
    assert tale.session.wake_at() == seconds(150)
    tale.ok("0.0.0.2.1").restart().ok("0.0.0.3.1").restart()
    assert tale.session.wake_at() == seconds(150)
