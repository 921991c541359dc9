"""Sagas: undos run if the helper fails or loses, and pass to the outer scope if it succeeds."""

from __future__ import annotations

from typing import Any

import pytest

from durable.errors import Cancelled, OperationMisused, TimedOut
from durable.model.error_codec import failed_undos
from durable.runner.combinators import gather, race
from durable.runner.definitions import Durable, WorkflowDef, activity, workflow
from durable.runner.ops import sleep
from durable.runner.undo import Scope, saga
from tests.runner.builders import Declined, approval, charge, notify
from tests.runner.tale import Tale


@activity
def refund(amount: int) -> None:
    """Undoes a charge."""


def pay(*amounts: int, fails: bool = False) -> Durable[int]:
    """Charges in turn, each with its undo."""
    for amount in amounts:
        yield from charge(amount).undo(refund)
    if fails:
        raise Declined("broke")
    return sum(amounts)


async def async_pay(*amounts: int) -> int:
    """The same as a coroutine that fails."""
    for amount in amounts:
        await charge(amount).undo(refund)
    raise Declined("broke")


@workflow(name="runner.saga.generator")
def trip() -> Durable[str]:
    """Catches a saga that fails, and continues."""
    yield from charge(1).undo(refund)
    try:
        yield from saga(pay(2, 3, fails=True))
    except Declined as error:
        yield from charge(4).undo(refund)
        return f"without: {error}"
    return "all"


@workflow(name="runner.saga.coroutine")
async def async_trip() -> str:
    """The same as a coroutine."""
    await charge(1).undo(refund)
    try:
        await saga(async_pay(2, 3))
    except Declined as error:
        await charge(4).undo(refund)
        return f"without: {error}"
    return "all"


FLAVOURS = pytest.mark.parametrize("definition", [trip, async_trip], ids=["generator", "async def"])


@FLAVOURS
def test_saga_that_fails_is_undone_before_its_error_is_raised(definition: WorkflowDef[[], Any]) -> None:
    """The saga's steps are undone in reverse, those outside are not, and the body may catch the error and continue."""
    tale = Tale(definition).ok("0", "1.0.0", "1.0.1")
    assert tale.open == {"1.u.0.0": "refund 3"}
    assert tale.ok("1.u.0.0").open == {"1.u.1.0": "refund 2"}
    assert tale.owed == ["refund 1.0.0", "refund 0"]
    assert tale.ok("1.u.1.0").open == {"2": "charge 4"}
    assert tale.owed == ["refund 0"]
    assert tale.ok("2").value == "without: broke"


@FLAVOURS
def test_workflow_that_is_cancelled_while_a_saga_undoes(definition: WorkflowDef[[], Any]) -> None:
    """The undo continues. Then `Cancelled` is raised in the body instead of the error, which is its cause."""
    tale = Tale(definition).ok("0", "1.0.0", "1.0.1").cancelled("stop")
    assert (tale.open, tale.withdrawn) == ({"1.u.0.0": "refund 3"}, [])
    assert tale.ok("1.u.0.0", "1.u.1.0").open == {"u.0.0": "refund 1"}
    error = tale.ok("u.0.0").error
    assert isinstance(error, Cancelled)
    assert (error.reason, repr(error.__cause__)) == ("stop", "Declined('broke')")


def test_saga_that_succeeds_passes_its_undos_on() -> None:
    """The scope around it owes its undos, in the order in which all steps completed."""

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from gather(saga(pay(1, 2)), pay(3, 4), saga(saga(charge(5).undo(refund))))
        yield from saga(charge(6))
        raise Declined("no")

    tale = Tale(body).ok("0.0.0.0.0", "0.1.0", "0.1.1", "0.2.0.0.0.0.0", "0.0.0.0.1")
    assert tale.owed == ["refund 0.0.0.0.1", "refund 0.2.0.0.0.0.0", "refund 0.1.1", "refund 0.1.0", "refund 0.0.0.0.0"]
    tale.ok("1.0.0")
    undone = []
    for number in range(5):
        undone.append(tale.open[f"u.{number}.0"])
        tale.ok(f"u.{number}.0")
    assert undone == ["refund 2", "refund 5", "refund 4", "refund 3", "refund 1"]
    assert isinstance(tale.error, Declined)


def test_failed_undo_of_a_saga_is_reported_on_its_error() -> None:
    """The error of a saga has its failed undos, and the workflow's own error has all of them."""

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from charge(1).undo(refund)
        try:
            yield from saga(pay(2, 3, fails=True))
        except Declined as error:
            yield from notify(" ".join(undo.message for undo in failed_undos(error)))
        raise ValueError("end")

    tale = Tale(body).ok("0", "1.0.0", "1.0.1").fails("1.u.0.0", Declined("x")).ok("1.u.1.0")
    assert tale.open == {"2": "notify x"}
    error = tale.ok("2").fails("u.0.0", Declined("y")).error
    assert isinstance(error, ValueError)
    assert [undo.message for undo in failed_undos(error)] == ["x", "y"]


def test_error_that_passes_several_sagas_has_each_undo_once() -> None:
    """An error raised through two sagas and the workflow names every failed undo once."""

    @workflow(name="w")
    def body() -> Durable[None]:
        def inner() -> Durable[None]:
            yield from charge(1).undo(refund)
            yield from saga(pay(2, fails=True))

        yield from saga(inner())

    tale = Tale(body).ok("0.0.0", "0.0.1.0.0").fails("0.0.1.u.0.0", Declined("x")).fails("0.u.0.0", Declined("y"))
    assert [undo.message for undo in failed_undos(tale.error)] == ["x", "y"]
    assert len([note for note in tale.error.__notes__ if note.startswith("undo")]) == 2


# --- losers ---------------------------------------------------------------------------------------------------------


def waiting(*amounts: int) -> Durable[None]:
    """Charges, then waits for an event that does not come."""
    yield from pay(*amounts)
    yield from approval.wait()


def test_saga_that_loses_is_undone_before_the_race_is_over() -> None:
    """The entries decide the winner; its value arrives after the losers' sagas are undone."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        won = yield from race(saga(waiting(1, 2)), charge(3).undo(refund), waiting(4))
        yield from charge(5)
        return won.key

    tale = Tale(body).ok("0.0.0.0.0", "0.2.0", "0.0.0.0.1", "0.1.0")
    assert tale.open == {"0.0.0.u.0.0": "refund 2"}
    assert tale.owed == ["refund 0.1.0", "refund 0.0.0.0.1", "refund 0.2.0", "refund 0.0.0.0.0"]
    assert tale.ok("0.0.0.u.0.0", "0.0.0.u.1.0").open == {"1": "charge 5"}
    assert tale.owed == ["refund 0.1.0", "refund 0.2.0"]
    assert tale.ok("1").value == 1


def test_saga_that_is_late_is_undone_before_the_timeout_is_raised() -> None:
    """`saga(...).within(limit)` raises `TimedOut` after the undos; a failed undo is reported at the end."""

    @workflow(name="w")
    def body() -> Durable[None]:
        try:
            yield from saga(waiting(1)).within(60)
        except TimedOut as late:
            yield from notify(f"late {len(failed_undos(late))}")
            raise

    tale = Tale(body).ok("0.0.0.0.0", "0.1.0")
    assert tale.open == {"0.0.0.u.0.0": "refund 1"}
    tale.fails("0.0.0.u.0.0", Declined("x"))
    assert (tale.open, tale.failed) == ({"1": "notify late 0"}, ["refund 0.0.0.0.0 x"])
    assert [undo.message for undo in failed_undos(tale.ok("1").error)] == ["x"]


def test_sagas_inside_each_other_lose_as_one() -> None:
    """All steps of a losing saga and of the sagas in it are undone in one order, by the outer saga."""

    def inner() -> Durable[None]:
        yield from charge(1).undo(refund)
        yield from gather(saga(waiting(2)), saga(waiting(3)), saga(approval.wait("none")))

    @workflow(name="w")
    def body() -> Durable[Any]:
        yield from race(saga(inner()), sleep(60))

    tale = Tale(body).ok("0.0.0.0.0", "0.0.0.0.1.1.0.0.0", "0.0.0.0.1.0.0.0.0", "0.1.0")
    undone = []
    for number in range(3):
        undone.append(tale.open[f"0.0.0.u.{number}.0"])
        tale.ok(f"0.0.0.u.{number}.0")
    assert undone == ["refund 2", "refund 3", "refund 1"]
    assert tale.value is None


def test_saga_that_is_undoing_continues_when_it_loses() -> None:
    """Nothing is undone twice or by half: the running undo ends, then the outer saga undoes, then the race ends."""

    def inner() -> Durable[None]:
        yield from charge(1).undo(refund)
        yield from saga(pay(2, 3, fails=True))

    @workflow(name="w")
    def body() -> Durable[Any]:
        first = yield from race(race(saga(inner()), sleep(600)), approval.wait())
        return first.key

    tale = Tale(body).ok("0.0.0.0.0.0.0", "0.0.0.0.0.0.1.0.0", "0.0.0.0.0.0.1.0.1")
    assert tale.open.pop("0.0.0.0.0.0.1.u.0.0") == "refund 3"
    tale.ok("0.1.0", value="come")
    assert (tale.open, tale.withdrawn) == ({"0.0.0.0.0.0.1.u.0.0": "refund 3"}, ["0.0.0.1.0"])
    assert tale.ok("0.0.0.0.0.0.1.u.0.0").open == {"0.0.0.0.0.0.1.u.1.0": "refund 2"}
    assert tale.ok("0.0.0.0.0.0.1.u.1.0").open == {"0.0.0.0.0.u.0.0": "refund 1"}
    assert tale.ok("0.0.0.0.0.u.0.0").value == 1


def test_group_that_waits_for_undos_may_lose_itself() -> None:
    """A decided race that waits for an undo can still be closed. The outer race then waits for that undo."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        outer = yield from race(race(saga(waiting(1)), charge(2)), approval.wait("outer"))
        return outer.key, outer.value

    tale = Tale(body).ok("0.0.0.0.0.0.0", "0.0.0.1.0")
    assert tale.open == {"0.1.0": "approval[outer]", "0.0.0.0.0.u.0.0": "refund 1"}
    assert tale.ok("0.1.0", value="out").open == {"0.0.0.0.0.u.0.0": "refund 1"}
    assert tale.ok("0.0.0.0.0.u.0.0").value == (1, "out")


def test_branch_that_fails_undoes_the_sagas_beside_it() -> None:
    """A gather raises its first error after the sagas of the other branches are undone."""

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from gather(saga(waiting(1)), charge(2), saga(charge(3).undo(refund)), saga(waiting(4)))

    tale = Tale(body).ok("0.0.0.0.0", "0.2.0.0.0", "0.3.0.0.0").fails("0.1.0", Declined("no"))
    assert tale.open == {"0.0.0.u.0.0": "refund 1", "0.3.0.u.0.0": "refund 4"}
    assert tale.ok("0.3.0.u.0.0").open == {"0.0.0.u.0.0": "refund 1"}
    assert tale.ok("0.0.0.u.0.0").open == {"u.0.0": "refund 3"}
    assert isinstance(tale.ok("u.0.0").error, Declined)


# --- cancellation ---------------------------------------------------------------------------------------------------


def test_cancelled_sagas_undo_side_by_side_and_the_workflow_last() -> None:
    """Every branch of a cancelled workflow undoes its own saga; undos outside of them run last."""

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from charge(1).undo(refund)
        yield from gather(saga(waiting(2)), saga(waiting(3)), approval.wait("other"))

    tale = Tale(body).ok("0", "1.0.0.0.0", "1.1.0.0.0").cancelled("stop")
    assert tale.open == {"1.0.0.u.0.0": "refund 2", "1.1.0.u.0.0": "refund 3"}
    assert tale.ok("1.1.0.u.0.0", "1.0.0.u.0.0").open == {"u.0.0": "refund 1"}
    error = tale.ok("u.0.0").error
    assert isinstance(error, Cancelled)
    assert error.reason == "stop"


def test_saga_that_swallows_a_cancellation_is_undone() -> None:
    """A helper that returns instead does not save its steps: the workflow ends, and so does the saga."""

    def stubborn() -> Durable[str]:
        try:
            yield from waiting(1)
        except Cancelled:
            yield from charge(2).undo(refund)
        return "swallowed"

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from saga(stubborn())

    tale = Tale(body).ok("0.0.0").cancelled().ok("0.0.2")
    assert tale.open == {"0.u.0.0": "refund 2"}
    assert isinstance(tale.ok("0.u.0.0", "0.u.1.0").error, Cancelled)


def test_race_that_waits_for_undos_may_be_cancelled() -> None:
    """If the workflow is cancelled before the winner's value arrives, the cancellation arrives instead."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from race(saga(waiting(1)), charge(2).undo(refund)))

    tale = Tale(body).ok("0.0.0.0.0", "0.1.0").cancelled("stop")
    assert tale.open == {"0.0.0.u.0.0": "refund 1"}
    assert tale.ok("0.0.0.u.0.0").open == {"u.0.0": "refund 2"}
    error = tale.ok("u.0.0").error
    assert isinstance(error, Cancelled)
    assert (error.reason, error.__cause__) == ("stop", None)


# --- sagas in undos, and corner cases -------------------------------------------------------------------------------


def test_saga_inside_an_undo_undoes_its_own_steps() -> None:
    """An undo may be a saga: if it fails, its own steps are undone; if it succeeds, their undos are dropped."""

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from charge(1).undo(lambda _: saga(pay(10)))
        yield from charge(2).undo(lambda _: saga(pay(20, fails=True)))
        yield from charge(3).undo(lambda _: race(saga(waiting(30)), sleep(60)))
        raise Declined("no")

    tale = Tale(body).ok("0", "1", "2").ok("u.0.0.0.0.0.0", "u.0.0.1.0")
    assert tale.open == {"u.0.0.0.0.u.0.0": "refund 30"}
    tale.cancelled()
    tale.ok("u.0.0.0.0.u.0.0").ok("u.1.0.0.0")
    assert tale.open == {"u.1.0.u.0.0": "refund 20"}
    tale.ok("u.1.0.u.0.0")
    assert (tale.failed, tale.open) == (["<lambda> 1 broke"], {"u.2.0.0.0": "charge 10"})
    assert isinstance(tale.ok("u.2.0.0.0").error, Cancelled)


def test_saga_without_undos_is_only_its_helper() -> None:
    """Success and failure pass through, and `continue_as` is refused."""

    def going_on() -> Durable[None]:
        yield from charge(1).undo(refund)
        raise body.continue_as()

    @workflow(name="w")
    def body() -> Durable[Any]:
        first = yield from saga(charge(7))
        with pytest.raises(Declined):
            yield from saga(pay(fails=True))
        with pytest.raises(OperationMisused, match="continue_as inside a branch"):
            yield from saga(going_on())
        return first

    tale = Tale(body).ok("0.0.0").ok("2.0.0")
    assert tale.ok("2.u.0.0").value == 7
    with pytest.raises(AssertionError, match="a saga has a helper"):
        Scope().empty()


def test_saga_takes_one_helper_or_operation() -> None:
    """Anything else is refused where it is written."""
    with pytest.raises(OperationMisused, match="saga takes operations or generator helpers, not int"):
        saga(7)  # type: ignore[arg-type, unused-awaitable]


def test_session_that_is_thrown_away_undoes_no_saga() -> None:
    """Closing a body whose sagas owe or run undos runs nothing and starts nothing."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        yield from gather(saga(waiting(1)), saga(pay(2, fails=True)))

    tale = Tale(body).ok("0.0.0.0.0", "0.1.0.0.0")
    assert tale.open == {"0.0.0.0.1": "approval", "0.1.0.u.0.0": "refund 2"}
    tale.session.close()
    assert (tale.session.waits, tale.session.owed(), tale.session.waits.open_activities) == ({}, [], 0)


def test_nothing_is_kept_of_sagas_that_are_over() -> None:
    """A long workflow does not grow with the number of its finished sagas."""

    @workflow(name="w")
    def body() -> Durable[None]:
        for number in range(5):
            with pytest.raises(Declined):
                yield from gather(gather(saga(pay(number, fails=True)), sleep(60)), saga(charge(1)))
        yield from approval.wait()

    tale = Tale(body)
    for number in range(5):
        tale.ok(f"{number}.0.0.0.0.0.0", f"{number}.0.0.0.0.u.0.0")
    undos = tale.session.interpreter.undos
    assert undos is not None
    assert (undos.scopes, undos.running, undos.busy, undos.held, undos.failed) == ({}, {}, {}, {}, [])
