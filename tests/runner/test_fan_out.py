"""`fan_out`: one branch per item, a few at a time, and the results in the order of the items."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest

from durable.errors import Cancelled, InvalidValue, OperationMisused, WrongType
from durable.model.records import HistoryEntry
from durable.runner.combinators import fan_out, gather, race, settle
from durable.runner.definitions import Durable, workflow
from durable.runner.ops import Returned, sleep
from durable.runner.session import WorkflowSessionRunner
from tests.runner.builders import (
    Declined,
    a_session,
    activity_error,
    activity_ok,
    answer,
    approval,
    cancellation,
    charge,
    error_of,
    notify,
    opened,
    picture,
    run,
    timer_fired,
    value_of,
    withdrawn,
)


def steps(amount: int) -> Durable[int]:
    """A branch with two operations, as a generator."""
    first = yield from charge(amount)
    yield from sleep(60)
    return first + 1


async def async_steps(amount: int) -> int:
    """The same branch as a coroutine."""
    first = await charge(amount)
    await sleep(60)
    return first + 1


@workflow(name="w")
def fanning(count: int, limit: int | None) -> Durable[Any]:
    """One activity for each item."""
    return (yield from fan_out(charge, range(count), limit=limit))


# --- limit and order ------------------------------------------------------------------------------------------------


def test_no_more_run_at_once_than_the_limit() -> None:
    """The first branches begin, and each one that ends lets the next one begin, in any order of ends."""
    session = a_session(fanning, 5, 2)
    assert opened(session.start()) == ["0.0.0", "0.1.0"]
    assert opened(session.feed(activity_ok(1, "0.1.0", "charge", 11))) == ["0.2.0"]
    assert opened(session.feed(activity_ok(2, "0.2.0", "charge", 12))) == ["0.3.0"]
    assert opened(session.feed(activity_ok(3, "0.0.0", "charge", 10))) == ["0.4.0"]
    assert opened(session.feed(activity_ok(4, "0.3.0", "charge", 13))) == []
    assert value_of(session.feed(activity_ok(5, "0.4.0", "charge", 14))) == [10, 11, 12, 13, 14]


@pytest.mark.parametrize("limit", [None, 5, 99])
def test_without_a_limit_all_run_at_once(limit: int | None) -> None:
    """Without a limit, or with a large one, every branch begins at once."""
    assert opened(a_session(fanning, 5, limit).start()) == [f"0.{place}.0" for place in range(5)]


def test_fan_out_of_nothing_is_an_empty_list() -> None:
    """Without items nothing waits, and the position counts as usual."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        nothing = yield from fan_out(charge, [], limit=3)
        return nothing, (yield from charge(1))

    assert value_of(run(body, activity_ok(1, "1", "charge", 5))) == ([], 5)


@pytest.mark.parametrize("fn", [steps, async_steps], ids=["generator", "async def"])
def test_branches_may_have_many_steps(fn: Any) -> None:
    """A helper keeps its slot until its last step, and its positions use the number of its item."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from fan_out(fn, [5, 6], limit=1))

    session = a_session(body)
    assert opened(session.start()) == ["0.0.0"]
    assert opened(session.feed(activity_ok(1, "0.0.0", "charge", 5))) == ["0.0.1"]
    assert opened(session.feed(timer_fired(61, "0.0.1"))) == ["0.1.0"]
    assert session.source("0.1.0") is not None
    session.feed(activity_ok(62, "0.1.0", "charge", 6))
    assert value_of(session.feed(timer_fired(130, "0.1.1"))) == [6, 7]


def test_branches_that_need_no_waiting_pass_through() -> None:
    """Branches that end at once make room for the next ones, in any number, without growing the stack."""

    def quiet(number: int) -> Durable[int]:
        return number
        yield from sleep(1)

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from fan_out(quiet, range(20_000), limit=1))

    assert value_of(run(body)) == list(range(20_000))


def test_items_are_taken_when_it_is_made() -> None:
    """A list that changes later, or a generator that is used up, does not affect the remaining branches."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        amounts = [1, 2]
        many = fan_out(charge, (amount for amount in amounts), limit=1)
        amounts.clear()
        return (yield from many)

    session = a_session(body)
    session.start()
    assert [wait.args for wait in session.waits.values()] == [(1,)]
    session.feed(activity_ok(1, "0.0.0", "charge", 1))
    assert [wait.args for wait in session.waits.values()] == [(2,)]


# --- failures and losers --------------------------------------------------------------------------------------------


def test_first_failure_ends_it_and_the_rest_never_begins() -> None:
    """A failure withdraws the running branches and is raised; the remaining branches never begin."""
    made: list[int] = []

    def make(amount: int) -> Any:
        made.append(amount)
        return charge(amount)

    @workflow(name="w")
    def body() -> Durable[str]:
        try:
            yield from fan_out(make, range(10), limit=3)
        except Declined as error:
            yield from sleep(1)
            return str(error)
        return "no failure"

    session = a_session(body)
    session.start()
    session.feed(activity_ok(1, "0.1.0", "charge", 1))
    result = session.feed(activity_error(2, "0.0.0", "charge", Declined("no")))
    assert sorted(withdrawn(result)) == ["0.2.0", "0.3.0"]
    assert made == [0, 1, 2, 3]
    assert value_of(session.feed(timer_fired(3, "1"))) == "no"


def test_failures_can_be_kept_as_values() -> None:
    """With `settle` in each branch a failure is a value and ends nothing."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        outcomes = yield from fan_out(lambda amount: settle(charge(amount)), range(3), limit=2)
        return [isinstance(outcome, Returned) for (outcome,) in outcomes]

    entries = [activity_error(1, "0.0.0.0.0", "charge", Declined("no")), activity_ok(2, "0.1.0.0.0", "charge", 1)]
    assert value_of(run(body, *entries, activity_ok(3, "0.2.0.0.0", "charge", 2))) == [False, True, True]


@pytest.mark.parametrize(
    ("fn", "error"),
    [
        (lambda amount: 1 // amount, ZeroDivisionError),
        (lambda amount: amount, OperationMisused),
        (lambda: None, TypeError),
        (lambda amount: list(charge(amount)), OperationMisused),
    ],
    ids=["raises", "makes no branch", "takes no item", "iterates"],
)
def test_branch_that_cannot_be_made_fails(fn: Any, error: type[Exception]) -> None:
    """If the function raises for an item, or does not return a branch, that branch fails."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from fan_out(fn, [0]))

    assert isinstance(error_of(run(body)), error)


def test_operation_that_the_function_drops_is_found() -> None:
    """An operation made for an item and dropped fails the workflow when that branch is made, and not before."""

    def careless(amount: int) -> Any:
        if amount == 1:
            notify()  # type: ignore[unused-awaitable]
        return charge(amount)

    @workflow(name="w")
    def body() -> Durable[Any]:
        outcome = yield from settle(fan_out(careless, [0, 1], limit=1))
        return outcome

    session = a_session(body)
    assert opened(session.start()) == ["0.0.0.0.0"]
    error = error_of(session.feed(activity_ok(1, "0.0.0.0.0", "charge", 0)))
    assert "never yielded" in str(error)


def test_fan_out_that_loses_a_race_leaves_nothing() -> None:
    """Running branches are withdrawn, and no other begins."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        won = yield from race(fan_out(charge, range(9), limit=2), approval.wait())
        yield from sleep(1)
        return won.key

    session = a_session(body)
    session.start()
    session.feed(activity_ok(1, "0.0.0.1.0", "charge", 1))
    result = session.feed(answer(session.waits["0.1.0"], 2))
    assert (sorted(withdrawn(result)), opened(result)) == (["0.0.0.0.0", "0.0.0.2.0"], ["1"])


def test_cancelled_fan_out_begins_nothing_more() -> None:
    """Running branches clean up; the remaining ones never begin."""

    def careful(amount: int) -> Durable[None]:
        try:
            yield from charge(amount)
        except Cancelled:
            yield from notify()

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from fan_out(careful, range(9), limit=2))

    session = a_session(body)
    session.start()
    assert opened(session.feed(cancellation(1))) == ["0.0.1", "0.1.1"]
    assert opened(session.feed(activity_ok(2, "0.0.1", "notify", None))) == []
    assert isinstance(error_of(session.feed(activity_ok(3, "0.1.1", "notify", None))), Cancelled)


# --- replay and size ------------------------------------------------------------------------------------------------


def _play(session: WorkflowSessionRunner, dice: random.Random) -> list[HistoryEntry]:
    """Answer open waits in random order; returns the entries."""
    session.start()
    entries: list[HistoryEntry] = []
    while session.waits:
        wait = dice.choice(list(session.waits.values()))
        entries.append(answer(wait, len(entries) + 1, len(entries)))
        session.feed(entries[-1])
    return entries


@pytest.mark.parametrize("seed", range(10))
def test_replay_reaches_the_same_waits(seed: int) -> None:
    """A session that replays any prefix of the entries waits for the same things as the live one."""

    def nested(amount: int) -> Any:
        return gather(fan_out(steps, range(amount), limit=1), charge(amount))

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from fan_out(nested, range(5), limit=2))

    dice = random.Random(seed)
    entries = _play(a_session(body), dice)
    cut = dice.randrange(len(entries))
    live = a_session(body)
    result = live.start()
    for entry in entries[:cut]:
        result = live.feed(entry)
    replayed = a_session(body)
    again = replayed.replay(entries[:cut])
    assert picture(replayed, again) == picture(live, result)
    assert len(entries) == 5 + 2 * (0 + 1 + 2 + 3 + 4)


def test_memory_does_not_grow_with_ended_branches() -> None:
    """A branch that has ended keeps only its result, and one that has not begun only its item."""

    def peak(count: int) -> int:
        session = a_session(fanning, count, 4)
        session.start()
        tracemalloc.start()
        for place in range(count - 1):
            (first, *_) = session.waits.values()
            session.feed(answer(first, place + 1, 7))
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    peak(100)
    assert peak(2_000) < 2 * peak(500) + 50_000


# --- invalid arguments ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, -1, True, 2.0, "2"])
def test_senseless_limit_is_refused(limit: Any) -> None:
    """A limit that is not a count of branches is refused where it is written."""
    with pytest.raises(InvalidValue, match="limit must be an int of at least 1"):
        fan_out(charge, [1], limit=limit)  # type: ignore[unused-awaitable]


def test_wrong_arguments_are_refused() -> None:
    """A non-function and a non-iterable are refused by name."""
    with pytest.raises(WrongType, match="fn must be a function of one item, not int"):
        fan_out(7, [1])  # type: ignore[arg-type, unused-awaitable]
    with pytest.raises(WrongType, match="items must be iterable, not int"):
        fan_out(charge, 7)  # type: ignore[arg-type, unused-awaitable]
    assert str(fan_out(charge, [])) == "fan_out"
