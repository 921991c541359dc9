"""Several things at once: positions, results and losers. The order of the entries decides everything."""

from __future__ import annotations

from typing import Any

import pytest

from durable.errors import InvalidValue, TimedOut
from durable.runner.combinators import Won, gather, race
from durable.runner.definitions import Durable, WorkflowDef, workflow
from durable.runner.ops import Branches, Within, sleep
from tests.runner.builders import (
    Declined,
    a_session,
    activity_error,
    activity_ok,
    approval,
    charge,
    child_ok,
    error_of,
    event_came,
    notify,
    opened,
    run,
    seconds,
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


@workflow(name="runner.branches.generator")
def gathering() -> Durable[Any]:
    """Two branches with several steps, as a generator."""
    yield from sleep(0)
    both = yield from gather(steps(1), steps(2))
    last = yield from charge(9)
    return both, last


@workflow(name="runner.branches.coroutine")
async def async_gathering() -> Any:
    """The same as a coroutine."""
    await sleep(0)
    both = await gather(async_steps(1), async_steps(2))
    last = await charge(9)
    return both, last


FLAVOURS = pytest.mark.parametrize("definition", [gathering, async_gathering], ids=["generator", "async def"])


@FLAVOURS
def test_positions_are_paths(definition: WorkflowDef[[], Any]) -> None:
    """Operation `j` of branch `i` of the gather at 1 has the position `1.i.j`, and the gather takes one position."""
    session = a_session(definition)
    assert opened(session.start()) == ["1.0.0", "1.1.0"]
    assert opened(session.feed(activity_ok(1, "1.1.0", "charge", 2))) == ["1.1.1"]
    assert opened(session.feed(timer_fired(2, "1.1.1"))) == []
    assert opened(session.feed(activity_ok(3, "1.0.0", "charge", 1))) == ["1.0.1"]
    assert opened(session.feed(timer_fired(4, "1.0.1"))) == ["2"]
    assert value_of(session.feed(activity_ok(5, "2", "charge", 9))) == ((2, 3), 9)


@FLAVOURS
def test_gather_closes_the_others_after_a_failure(definition: WorkflowDef[[], Any]) -> None:
    """The first failure ends a gather at once, no matter what the other branches still wait for."""
    first = activity_ok(1, "1.1.0", "charge", 2)
    assert error_of(run(definition, first, activity_error(2, "1.0.0", "charge", Declined("no")))).args == ("no",)


def test_gather_withdraws_the_waits_of_closed_branches() -> None:
    """When a body catches the failure of a gather, the waits of the other branches are withdrawn, nested ones too."""

    @workflow(name="w")
    def body() -> Durable[str]:
        try:
            yield from gather(charge(1), gather(charge(2), race(sleep(5), approval.wait())), notify())
        except Declined as error:
            yield from sleep(1)
            return str(error)
        return "no failure"

    session = a_session(body)
    assert opened(session.start()) == ["0.0.0", "0.2.0", "0.1.0.0.0", "0.1.0.1.0.0.0", "0.1.0.1.0.1.0"]
    session.feed(activity_ok(1, "0.2.0", "notify", None))
    result = session.feed(activity_error(2, "0.0.0", "charge", Declined("no")))
    assert sorted(withdrawn(result)) == ["0.1.0.0.0", "0.1.0.1.0.0.0", "0.1.0.1.0.1.0"]
    assert opened(result) == list(session.waits) == ["1"]
    assert session.wake_at() == seconds(3)
    assert value_of(session.feed(timer_fired(3, "1"))) == "no"


def test_gather_of_nothing_is_an_empty_tuple() -> None:
    """An empty gather does not wait, and its position counts like any other."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        nothing = yield from gather()
        return nothing, (yield from charge(1))

    assert value_of(run(body, activity_ok(1, "1", "charge", 5))) == ((), 5)


def test_gather_of_finished_branches_does_not_wait() -> None:
    """Branches that never suspend, or that have no operation at all, end their gather at once."""

    def quiet() -> Durable[str]:
        return "quiet"
        yield from sleep(1)

    async def async_quiet() -> str:
        return "async"

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from gather(quiet(), async_quiet(), gather(sleep(0))))[:2]

    assert value_of(run(body)) == ("quiet", "async")


def test_gather_gives_results_in_the_order_of_its_branches() -> None:
    """Results are in the order of the branches, not in the order in which they arrived."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from gather(charge(1), approval.wait(), charge(3)))

    entries = [activity_ok(1, "0.2.0", "charge", 3), event_came(2, "0.1.0", None), activity_ok(3, "0.0.0", "charge", 1)]
    assert value_of(run(body, *entries)) == (1, None, 3)


def test_race_of_nothing_is_refused_in_the_body() -> None:
    """An empty race raises ValueError where it is yielded, and the body may catch it."""

    @workflow(name="w")
    def body() -> Durable[str]:
        try:
            yield from race()
        except ValueError as error:
            return str(error)
        return "no error"

    assert value_of(run(body)) == str(InvalidValue("race", "needs at least one branch"))


@workflow(name="runner.race.generator")
def racing() -> Durable[Any]:
    """A race of an index, a named operation and a named helper."""
    won = yield from race(charge(1), pay=charge(2), helper=steps(3))
    yield from sleep(1)
    return won


@workflow(name="runner.race.coroutine")
async def async_racing() -> Any:
    """The same as a coroutine."""
    won = await race(charge(1), pay=charge(2), helper=async_steps(3))
    await sleep(1)
    return won


@pytest.mark.parametrize("definition", [racing, async_racing], ids=["generator", "async def"])
@pytest.mark.parametrize("key", [0, "pay"])
def test_race_is_won_by_the_first_entry(definition: WorkflowDef[[], Any], key: int | str) -> None:
    """The branch whose entry comes first wins under its index or name, and the others are withdrawn."""
    session = a_session(definition)
    assert opened(session.start()) == ["0.0.0", "0.pay.0", "0.helper.0"]
    result = session.feed(activity_ok(1, f"0.{key}.0", "charge", 7))
    assert withdrawn(result) == [path for path in ("0.0.0", "0.pay.0", "0.helper.0") if path != f"0.{key}.0"]
    assert value_of(session.feed(timer_fired(2, "1"))) == Won(key, 7)


@pytest.mark.parametrize("definition", [racing, async_racing], ids=["generator", "async def"])
def test_race_is_won_by_a_helper_that_finishes_first(definition: WorkflowDef[[], Any]) -> None:
    """A branch with several steps wins when its last step comes before any other branch has finished."""
    entries = [activity_ok(1, "0.helper.0", "charge", 3), timer_fired(2, "0.helper.1"), timer_fired(3, "1")]
    assert value_of(run(definition, *entries)) == Won("helper", 4)


def test_race_raises_a_failure_that_is_first() -> None:
    """The first branch to finish decides a race, even if it failed."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from race(charge(1), charge(2)))

    assert type(error_of(run(body, activity_error(1, "0.1.0", "charge", Declined("no"))))) is Declined


def test_race_that_ends_the_workflow_reports_its_losers() -> None:
    """The waits that a body gives up at its end can be read afterwards, and none is open."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from race(charge(1), gather(sleep(5), approval.wait())))

    session = a_session(body)
    session.start()
    assert value_of(session.feed(activity_ok(1, "0.0.0", "charge", 7))) == Won(0, 7)
    assert [wait.position for wait in session.waits.withdrawn or ()] == ["0.1.0.0.0", "0.1.0.1.0"]
    assert session.waits == {}


def test_race_with_an_immediate_winner_never_starts_the_rest() -> None:
    """A branch that finishes at once wins before later branches have asked for anything."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        won = yield from race(sleep(60), sleep(0), steps(1), async_steps(2))
        yield from sleep(1)
        return won.key

    session = a_session(body)
    result = session.start()
    assert opened(result) == ["0.0.0", "1"]
    assert withdrawn(result) == ["0.0.0"]
    assert value_of(session.feed(timer_fired(1, "1"))) == 1


@workflow(name="runner.within.generator")
def limited() -> Durable[Any]:
    """A limit that raises, then one with a default."""
    try:
        first: Any = yield from approval.wait().within(10)
    except TimedOut as error:
        first = (error.operation, error.seconds, isinstance(error, TimeoutError))
    second = yield from charge(1).within(10).or_default("late")
    return first, second


@workflow(name="runner.within.coroutine")
async def async_limited() -> Any:
    """The same as a coroutine."""
    try:
        first: Any = await approval.wait().within(10)
    except TimedOut as error:
        first = (error.operation, error.seconds, isinstance(error, TimeoutError))
    second = await charge(1).within(10).or_default("late")
    return first, second


WITHIN = pytest.mark.parametrize("definition", [limited, async_limited], ids=["generator", "async def"])


@WITHIN
def test_within_raises_and_or_default_returns_when_the_timer_is_first(definition: WorkflowDef[[], Any]) -> None:
    """A limit that is reached raises TimedOut, or gives the default, and withdraws the operation."""
    session = a_session(definition)
    assert opened(session.start()) == ["0.0.0", "0.1.0"]
    result = session.feed(timer_fired(10, "0.1.0"))
    assert (withdrawn(result), opened(result)) == (["0.0.0"], ["1.0.0", "1.1.0"])
    assert session.wake_at() == seconds(20)
    assert value_of(session.feed(timer_fired(20, "1.1.0"))) == (("event approval", 10.0, True), "late")


@WITHIN
def test_within_gives_the_result_when_the_operation_is_first(definition: WorkflowDef[[], Any]) -> None:
    """An operation that ends within its limit gives its own result, and the timer is withdrawn."""
    session = a_session(definition)
    session.start()
    assert withdrawn(session.feed(event_came(1, "0.0.0", "yes"))) == ["0.1.0"]
    assert value_of(session.feed(activity_ok(2, "1.0.0", "charge", 5))) == ("yes", 5)


@WITHIN
def test_within_passes_a_failure_on(definition: WorkflowDef[[], Any]) -> None:
    """A failure of the operation is neither a timeout nor replaced by a default."""
    entries = [event_came(1, "0.0.0", "yes"), activity_error(2, "1.0.0", "charge", Declined("no"))]
    assert type(error_of(run(definition, *entries))) is Declined


def test_within_of_zero_does_not_beat_a_pending_answer() -> None:
    """A limit of zero opens a timer that is due, so an answer that is recorded first still wins."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from approval.wait().within(0).or_default("late"))

    session = a_session(body)
    assert opened(session.start()) == ["0.0.0", "0.1.0"]
    assert [wait.position for wait in session.due(seconds(0))] == ["0.1.0"]
    assert value_of(session.feed(event_came(0, "0.0.0", "early"))) == "early"
    assert value_of(run(body, timer_fired(0, "0.1.0"))) == "late"


def test_branches_nest_freely() -> None:
    """Operations, helpers, children, limits and defaults nest in any way, each with its own path."""

    @workflow(name="child")
    def child(amount: int) -> Durable[int]:
        return (yield from charge(amount))

    @workflow(name="w")
    def body() -> Durable[Any]:
        limited = gather(race(a=approval.wait(), b=child(1)), charge(4)).within(30)
        return (yield from gather(limited.or_default(None), race(sleep(5).within(9), sleep(7))))

    session = a_session(body)
    assert sorted(opened(session.start())) == [
        "0.0.0.0.0.0.0.a.0", "0.0.0.0.0.0.0.b.0", "0.0.0.0.0.1.0", "0.0.0.1.0",
        "0.1.0.0.0.0.0", "0.1.0.0.0.1.0", "0.1.0.1.0",
    ]  # fmt: skip
    session.feed(child_ok(1, "0.0.0.0.0.0.0.b.0", "child", 11))
    session.feed(timer_fired(5, "0.1.0.0.0.0.0"))
    result = value_of(session.feed(activity_ok(6, "0.0.0.0.0.1.0", "charge", 4)))
    assert result[0] == (Won("b", 11), 4)
    assert result[1].key == 0


def test_or_default_catches_the_timeout_of_a_group() -> None:
    """A default also replaces a TimedOut that a branch of the operation raised."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from gather(approval.wait().within(5), charge(1)).or_default("late"))

    assert value_of(run(body, timer_fired(5, "0.0.0.1.0"))) == "late"


def test_branches_are_shown_by_their_verbs() -> None:
    """The text of an operation with branches in messages is its verb."""
    assert str(gather()) == "gather"
    assert str(race()) == "race"
    assert repr(charge(1).within(2).or_default(0)) == "charge(...) within 2 s or default"
    assert str(sleep(1)) == "sleep"


def test_branches_without_a_tally_are_a_bug() -> None:
    """A combinator must define its tally, and a limit always has exactly two branches."""
    with pytest.raises(NotImplementedError):
        Branches(()).tally()
    with pytest.raises(AssertionError):
        Within(sleep(1), 1).empty()
