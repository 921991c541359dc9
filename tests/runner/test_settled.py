"""Failures as values: `settle` waits for all branches, `first_success` skips those that fail."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from durable.errors import Cancelled, ChildWorkflowFailed, InvalidValue, OperationMisused, TimedOut
from durable.model.error_codec import pack_error, unpack_error
from durable.model.records import EntryKind, EntryStatus, HistoryEntry
from durable.runner.combinators import AllFailed, Outcome, Won, first_success, gather, race, settle
from durable.runner.definitions import Durable, WorkflowDef, workflow
from durable.runner.ops import Raised, Returned, sleep
from tests.runner.builders import (
    Declined,
    a_session,
    activity_error,
    activity_ok,
    approval,
    cancellation,
    charge,
    error_of,
    event_came,
    notify,
    opened,
    run,
    seconds,
    suspended,
    timer_fired,
    value_of,
    withdrawn,
)


def steps(amount: int) -> Durable[int]:
    """A branch with two operations."""
    first = yield from charge(amount)
    yield from sleep(60)
    return first + 1


@workflow(name="runner.settled.generator")
def settling() -> Durable[Any]:
    """Three branches, each of which may fail."""
    return (yield from settle(charge(1), steps(2), approval.wait().within(10)))


@workflow(name="runner.settled.coroutine")
async def async_settling() -> Any:
    """The same as a coroutine."""
    return await settle(charge(1), steps(2), approval.wait().within(10))


FLAVOURS = pytest.mark.parametrize("definition", [settling, async_settling], ids=["generator", "async def"])


# --- settle ---------------------------------------------------------------------------------------------------------


@FLAVOURS
def test_settle_waits_for_all_and_returns_each_outcome(definition: WorkflowDef[[], Any]) -> None:
    """A failure closes no other branch, and each branch has its outcome in the order of the branches."""
    session = a_session(definition)
    assert opened(session.start()) == ["0.0.0", "0.1.0", "0.2.0.0.0", "0.2.0.1.0"]
    assert withdrawn(session.feed(activity_error(1, "0.0.0", "charge", Declined("no")))) == []
    session.feed(activity_ok(2, "0.1.0", "charge", 2))
    session.feed(timer_fired(10, "0.2.0.1.0"))
    first, second, third = value_of(session.feed(timer_fired(62, "0.1.1")))
    assert isinstance(first, Raised)
    assert isinstance(first.error, Declined)
    assert second == Returned(3)
    assert isinstance(third.error, TimedOut)


ENTRIES = (
    activity_error(1, "0.0.0", "charge", Declined("no")),
    activity_ok(1, "0.1.0", "charge", 2),
    event_came(1, "0.2.0", "yes"),
)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_settle_gives_the_same_outcomes_in_any_order(order: tuple[int, ...]) -> None:
    """Whichever branch ends first, the outcomes are in the order of the branches."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from settle(charge(1), charge(2), approval.wait()))

    outcomes = value_of(run(body, *(ENTRIES[place] for place in order)))
    assert [type(outcome) for outcome in outcomes] == [Raised, Returned, Returned]
    assert outcomes[1:] == (Returned(2), Returned("yes"))


def test_settle_of_nothing_is_an_empty_tuple() -> None:
    """An empty settle does not wait, and its position counts as usual."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        nothing = yield from settle()
        return nothing, (yield from charge(1))

    assert value_of(run(body, activity_ok(1, "1", "charge", 5))) == ((), 5)


def test_settle_takes_failures_of_any_kind() -> None:
    """A helper that raises at once, a refused branch and a failed child are failures like others."""

    @workflow(name="child")
    def child() -> Durable[None]:
        yield from notify()

    def hasty() -> Durable[int]:
        raise Declined("at once")
        yield from sleep(1)

    def clumsy() -> Durable[Any]:
        yield from gather(7)  # type: ignore[call-overload]

    @workflow(name="w")
    def body() -> Durable[Any]:
        outcomes = yield from settle(hasty(), clumsy(), child())
        return [type(outcome.error) for outcome in outcomes if isinstance(outcome, Raised)]

    failed = pack_error(ChildWorkflowFailed("w-1/0.2.0", "Declined", "no"))
    entry = HistoryEntry(1, "0.2.0", EntryKind.CHILD, "child", EntryStatus.ERROR, failed, seconds(1))
    assert value_of(run(body, entry)) == [Declined, OperationMisused, ChildWorkflowFailed]


class Hangup(BaseException):
    """An error that `except Exception` does not catch."""


@pytest.mark.parametrize("combinator", [settle, first_success])
def test_base_exception_is_raised_at_once(combinator: Any) -> None:
    """An error that is not an Exception is never a value: it closes the other branches and is raised."""

    def hung_up() -> Durable[None]:
        yield from charge(1)
        raise Hangup

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from combinator(hung_up(), charge(2)))

    assert isinstance(error_of(run(body, activity_ok(1, "0.0.0", "charge", 1))), Hangup)


@pytest.mark.parametrize("combinator", [settle, first_success])
def test_cancellation_is_not_a_failure_of_a_branch(combinator: Any) -> None:
    """A cancelled workflow gets Cancelled, whatever its branches do while they are closed."""

    def stubborn() -> Durable[str]:
        try:
            yield from charge(1)
        except Cancelled:
            yield from notify("cleaned")
        return "went on"

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from combinator(stubborn(), approval.wait()))

    session = a_session(body)
    session.start()
    assert opened(session.feed(cancellation(1, "enough"))) == ["0.0.1"]
    error = error_of(session.feed(activity_ok(2, "0.0.1", "notify", None)))
    assert isinstance(error, Cancelled)
    assert error.reason == "enough"


def test_outcomes_are_values() -> None:
    """Outcomes can be matched, compared and shown."""
    error = Declined("no")
    matched: list[Any] = []
    outcomes: tuple[Outcome[int], ...] = (Returned(5), Raised(error), Raised(ValueError()))
    for outcome in outcomes:
        match outcome:
            case Returned(value):
                matched.append(value)
            case Raised(Declined() as why):
                matched.append(why)
            case Raised():
                matched.append("other")
    assert matched == [5, error, "other"]
    assert Returned(5) == Returned(5) != Returned(6)
    assert Raised(error) == Raised(error) != Raised(Declined("no"))
    assert Returned(error) != Raised(error)
    assert len({Returned(5), Returned(5), Raised(error), Raised(error)}) == 2
    assert (repr(Returned(5)), repr(Raised(error))) == ("Returned(5)", "Raised(Declined('no'))")


def test_outcomes_of_many_branches_can_be_sorted_out() -> None:
    """Any number of branches may be settled, and a branch may settle others."""

    def inner() -> Durable[list[Outcome[int]]]:
        return list((yield from settle(*[charge(amount) for amount in range(3)])))

    @workflow(name="w")
    def body() -> Durable[Any]:
        (outcome,) = yield from settle(inner())
        assert isinstance(outcome, Returned)
        return [branch.value for branch in outcome.value if isinstance(branch, Returned)]

    entries = [activity_ok(place, f"0.0.0.{place}.0", "charge", place) for place in (2, 0)]
    assert value_of(run(body, *entries, activity_error(3, "0.0.0.1.0", "charge", Declined("no")))) == [0, 2]


# --- first_success --------------------------------------------------------------------------------------------------


@workflow(name="runner.first.generator")
def first() -> Durable[Any]:
    """An index, a name, and a helper with a name."""
    won = yield from first_success(charge(1), pay=charge(2), helper=steps(3))
    yield from sleep(1)
    return won


@workflow(name="runner.first.coroutine")
async def async_first() -> Any:
    """The same as a coroutine."""
    won = await first_success(charge(1), pay=charge(2), helper=steps(3))
    await sleep(1)
    return won


BOTH = pytest.mark.parametrize("definition", [first, async_first], ids=["generator", "async def"])


@BOTH
def test_first_success_skips_failures(definition: WorkflowDef[[], Any]) -> None:
    """The first branch to succeed wins under its index or name; earlier failures are skipped, other branches closed."""
    session = a_session(definition)
    assert opened(session.start()) == ["0.0.0", "0.pay.0", "0.helper.0"]
    assert opened(session.feed(activity_error(1, "0.0.0", "charge", Declined("no")))) == []
    result = session.feed(activity_ok(2, "0.pay.0", "charge", 7))
    assert (withdrawn(result), opened(result)) == (["0.helper.0"], ["1"])
    assert value_of(session.feed(timer_fired(3, "1"))) == Won("pay", 7)


@BOTH
def test_first_success_is_won_by_a_branch_with_many_steps(definition: WorkflowDef[[], Any]) -> None:
    """A helper may be the last branch left, and wins when it succeeds."""
    entries = [activity_error(seq, f"0.{key}.0", "charge", Declined("no")) for seq, key in ((0, 0), (1, "pay"))]
    more = [activity_ok(2, "0.helper.0", "charge", 3), timer_fired(62, "0.helper.1"), timer_fired(63, "1")]
    assert value_of(run(definition, *entries, *more)) == Won("helper", 4)


@BOTH
def test_first_success_of_failures_has_all_errors(definition: WorkflowDef[[], Any]) -> None:
    """If all branches fail, AllFailed has their errors by key, in the order of the branches."""
    keys = (0, "pay", "helper")
    entries = [activity_error(3 - place, f"0.{keys[place]}.0", "charge", Declined(place)) for place in (2, 1, 0)]
    error = error_of(run(definition, *entries))
    assert isinstance(error, AllFailed)
    assert list(error.errors) == [0, "pay", "helper"]
    assert [error.args for error in error.errors.values()] == [(0,), (1,), (2,)]
    assert str(error) == "all 3 branches failed: 0: Declined: 0; pay: Declined: 1; helper: Declined: 2"


def test_all_failed_can_be_stored() -> None:
    """AllFailed can be stored and read back with the error of every branch."""
    stored = pack_error(AllFailed({0: Declined("no"), "pay": Declined("never")}))
    back = unpack_error(stored)
    assert type(back) is AllFailed
    assert str(back) == "all 2 branches failed: 0: Declined: no; pay: Declined: never"


@pytest.mark.parametrize("combinator", [race, first_success])
def test_nothing_cannot_win(combinator: Any) -> None:
    """Without branches a race or a first_success raises a ValueError where it is yielded, and the error names it."""

    @workflow(name="w")
    def body() -> Durable[str]:
        try:
            yield from combinator()
        except ValueError as error:
            return str(error)
        return "no error"

    assert value_of(run(body)) == str(InvalidValue(combinator.__name__, "needs at least one branch"))


def test_first_success_withdraws_everything_of_its_losers() -> None:
    """Timers, events, activities and children of losing branches are withdrawn, nested ones too."""

    @workflow(name="child")
    def child() -> Durable[None]:
        yield from notify()

    @workflow(name="w")
    def body() -> Durable[Any]:
        losers = gather(sleep(5), approval.wait(), child(), settle(charge(3), first_success(charge(4))))
        won = yield from first_success(charge(1), losers)
        yield from sleep(1)
        return won.key

    session = a_session(body)
    losing = opened(session.start())[1:]
    result = suspended(session.feed(activity_ok(1, "0.0.0", "charge", 7)))
    assert sorted(wait.position for wait in result.withdrawn) == sorted(losing)
    assert {wait.kind for wait in result.withdrawn} == {
        EntryKind.TIMER, EntryKind.EVENT, EntryKind.CHILD, EntryKind.ACTIVITY,
    }  # fmt: skip
    assert list(session.waits) == ["1"]
    assert session.waits.open_activities == 0


def test_a_branch_that_succeeds_at_once_wins_before_the_rest_begins() -> None:
    """Branches after one that succeeds at once never ask for anything."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        won = yield from first_success(sleep(60), sleep(0), charge(1))
        yield from sleep(1)
        return won.key

    session = a_session(body)
    assert opened(session.start()) == ["0.0.0", "1"]
    assert value_of(session.feed(timer_fired(1, "1"))) == 1


def test_settled_branches_are_shown_by_their_verbs() -> None:
    """The text of an operation with branches in messages is its verb."""
    assert str(settle()) == "settle"
    assert str(first_success()) == "first_success"
