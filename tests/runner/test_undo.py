"""Undo: succeeded steps are undone in reverse if the workflow fails or is cancelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from durable.errors import Cancelled, OperationMisused, WrongType
from durable.model.error_codec import failed_undos, pack_error
from durable.runner.combinators import gather, race
from durable.runner.definitions import Durable, WorkflowDef, activity, call, workflow
from durable.runner.ops import sleep
from durable.runner.results import ContinueAs
from tests.runner.builders import Declined, a_session, charge, notify, opened, run
from tests.runner.tale import Tale


@activity
def refund(amount: int) -> None:
    """Undoes a charge."""


def both(amount: int) -> Durable[None]:
    """An undo with two steps."""
    yield from refund(amount)
    yield from notify("undone")


@workflow(name="runner.undo.generator")
def booking() -> Durable[str]:
    """Three charges with undos, and one more step."""
    yield from charge(1).undo(refund)
    yield from charge(2).undo(both)
    yield from charge(3).undo(lambda amount: refund(amount * 10))
    yield from charge(4)
    return "booked"


@workflow(name="runner.undo.coroutine")
async def async_booking() -> str:
    """The same as a coroutine, with an undo that is a coroutine too."""

    async def both(amount: int) -> None:
        await refund(amount)
        await notify("undone")

    await charge(1).undo(refund)
    await charge(2).undo(both)
    await charge(3).undo(lambda amount: refund(amount * 10))
    await charge(4)
    return "booked"


FLAVOURS = pytest.mark.parametrize("definition", [booking, async_booking], ids=["generator", "async def"])


@FLAVOURS
def test_undos_run_in_reverse_when_the_workflow_fails(definition: WorkflowDef[[], Any]) -> None:
    """Each undo gets its step's result and runs to its end before the next; the error is the original one."""
    tale = Tale(definition).ok("0", "1", "2")
    assert tale.owed == ["<lambda> 2", "both 1", "refund 0"]
    assert tale.fails("3", Declined("no")).open == {"u.0.0": "refund 30"}
    assert tale.ok("u.0.0").open == {"u.1.0": "refund 2"}
    assert tale.ok("u.1.0").open == {"u.1.1": "notify undone"}
    assert tale.owed == ["both 1", "refund 0"]
    assert tale.ok("u.1.1").open == {"u.2.0": "refund 1"}
    error = tale.ok("u.2.0").error
    assert (type(error), error.args, failed_undos(error), tale.owed) == (Declined, ("no",), (), [])


@FLAVOURS
def test_undos_do_not_run_when_it_succeeds(definition: WorkflowDef[[], Any]) -> None:
    """A workflow that returns runs no undos."""
    assert Tale(definition).ok("0", "1", "2", "3").value == "booked"


@FLAVOURS
def test_undos_run_when_it_is_cancelled(definition: WorkflowDef[[], Any]) -> None:
    """A cancelled workflow undoes its succeeded steps and nothing else, and ends with the cancellation."""
    tale = Tale(definition).ok("0").cancelled("enough")
    assert (tale.open, tale.withdrawn) == ({"u.0.0": "refund 1"}, ["1"])
    error = tale.ok("u.0.0").error
    assert isinstance(error, Cancelled)
    assert error.reason == "enough"


def test_undos_run_behind_explicit_cleanup() -> None:
    """A body that cleans up itself does so first; one that swallows the cancellation is still undone."""

    @workflow(name="w")
    def body() -> Durable[str]:
        yield from charge(1).undo(refund)
        try:
            yield from sleep(60)
        except Cancelled:
            yield from charge(2).undo(refund)
        return "swallowed"

    tale = Tale(body).ok("0").cancelled()
    assert tale.open == {"2": "charge 2"}
    assert tale.ok("2").open == {"u.0.0": "refund 2"}
    assert tale.ok("u.0.0", "u.1.0").value == "swallowed"


def test_undo_that_fails_is_reported_and_the_others_run() -> None:
    """The original error is kept; a note and a field name the failed undos."""
    tale = Tale(booking).ok("0", "1", "2").cancelled().fails("u.0.0", Declined("bank closed"))
    assert (tale.open, tale.failed) == ({"u.1.0": "refund 2"}, ["<lambda> 2 bank closed"])
    error = tale.fails("u.1.0", Declined("still")).ok("u.2.0").error
    assert isinstance(error, Cancelled)
    (first, second) = failed_undos(error)
    assert (first.position, first.step, first.undo, first.message) == ("2", "charge(...)", "<lambda>", "bank closed")
    assert first.error_type == "tests.runner.builders.Declined"
    assert (second.undo, second.message) == ("both", "still")
    assert [note for note in error.__notes__ if note.startswith("undo")] == [str(first), str(second)]


def test_cancellation_that_is_swallowed_reports_failed_undos() -> None:
    """There is no other error to carry them, so the workflow ends with the cancellation."""

    @workflow(name="w")
    def body() -> Durable[str]:
        yield from charge(1).undo(refund)
        try:
            yield from sleep(60)
        except Cancelled:
            return "swallowed"
        return "slept"

    error = Tale(body).ok("0").cancelled("why").fails("u.0.0", Declined("no")).error
    assert isinstance(error, Cancelled)
    assert (error.reason, [undo.message for undo in failed_undos(error)]) == ("why", ["no"])


def test_cancel_does_not_interrupt_undos() -> None:
    """A cancellation during the undos changes only the end, which keeps the original error as the cause."""

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from charge(1).undo(lambda amount: gather(refund(amount), notify().within(60)))
        yield from charge(2).undo(refund)
        raise Declined("no")

    tale = Tale(body).ok("0", "1").cancelled("late")
    assert (tale.open, tale.withdrawn) == ({"u.0.0": "refund 2"}, [])
    assert set(tale.ok("u.0.0").open) == {"u.1.0.0.0", "u.1.0.1.0.0.0", "u.1.0.1.0.1.0"}
    error = tale.ok("u.1.0.0.0", "u.1.0.1.0.0.0").error
    assert isinstance(error, Cancelled)
    assert (error.reason, repr(error.__cause__)) == ("late", "Declined('no')")


def test_undos_of_branches_are_in_the_order_of_completion() -> None:
    """Steps inside branches, winners and losers alike, are undone in reverse order of their completion."""

    def branch(first: int, second: int) -> Durable[None]:
        yield from charge(first).undo(refund)
        yield from charge(second).undo(refund)

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from race(branch(1, 2), branch(3, 4))
        yield from gather(charge(5).undo(refund), charge(6).undo(refund)).undo(lambda _: notify("both"))
        raise Declined("no")

    tale = Tale(body).ok("0.0.0", "0.1.0", "0.0.1")
    assert tale.withdrawn == ["0.1.1"]
    tale.ok("1.1.0", "1.0.0")
    undone = []
    for number in range(6):
        ((position, asked),) = tale.open.items()
        assert position == f"u.{number}.0"
        undone.append(asked)
        tale.ok(position)
    assert undone == ["notify both", "refund 5", "refund 6", "refund 2", "refund 3", "refund 1"]


def test_step_that_fails_or_is_late_owes_nothing() -> None:
    """Only steps that succeeded are undone; a default counts as success."""

    @workflow(name="w")
    def body() -> Durable[None]:
        with pytest.raises(Declined):
            yield from charge(1).undo(refund)
        with pytest.raises(TimeoutError):
            yield from charge(2).undo(refund).within(10)
        yield from charge(3).within(10).or_default(7).undo(refund)
        raise Declined("no")

    tale = Tale(body).fails("0", Declined("1")).ok("1.1.0", "2.1.0")
    assert tale.open == {"u.0.0": "refund 7"}


def test_undo_takes_no_position() -> None:
    """A running workflow continues under code to which an undo was added."""

    @workflow(name="w")
    def before() -> Durable[int]:
        return (yield from charge(1)) + (yield from charge(2))

    @workflow(name="w")
    def after() -> Durable[int]:
        return (yield from charge(1).undo(refund).undo(both)) + (yield from charge(2))

    entries = Tale(before).ok("0").entries
    assert opened(run(after, *entries)) == ["1"]


def wrong(amount: int) -> Any:
    """An undo that forgets to return its operation."""
    refund(amount)  # type: ignore[unused-awaitable]


def broken(amount: int) -> Any:
    """An undo that raises before it asks for anything."""
    raise Declined(f"bug {amount}")


def careless(amount: int) -> Any:
    """An undo that makes one operation too many."""
    refund(amount)  # type: ignore[unused-awaitable]
    return refund(amount)


def bare(amount: int) -> Any:
    """An undo with a bare yield."""
    yield refund(amount)


def going_on(amount: int) -> Durable[None]:
    """An undo that tries to continue as a new round."""
    yield from sleep(0)
    raise booking.continue_as()


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (wrong, "undo wrong of charge(...) returned NoneType, not an operation or a generator helper"),
        (broken, "bug 1"),
        (careless, "was created at"),
        (bare, "write 'yield from'"),
        (going_on, "continue_as inside an undo"),
    ],
)
def test_undo_that_is_wrong_is_a_failed_undo(fn: Callable[[int], Any], expected: str) -> None:
    """A mistake in an undo costs that undo and no other, and is reported like any failure."""

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from charge(2).undo(refund)
        yield from charge(1).undo(fn)
        raise Declined("no")

    tale = Tale(body).ok("0", "1")
    assert tale.open == {"u.1.0": "refund 2"}
    (failed,) = failed_undos(tale.ok("u.1.0").error)
    assert failed.undo == fn.__name__
    assert expected in failed.message


class Refunder:
    """A callable without a name."""

    def __call__(self, amount: int) -> Any:
        return call(round, amount, name="round")


def test_undo_takes_any_callable() -> None:
    """A callable object, a workflow, and a plain function through `call` are valid undos with a name for people."""

    @workflow(name="sub")
    def sub(amount: int) -> Durable[int]:
        return (yield from charge(amount))

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from charge(1).undo(Refunder())
        yield from charge(2).undo(sub)
        raise Declined("no")

    tale = Tale(body).ok("0")
    assert tale.owed == ["Refunder 0"]
    tale.ok("1")
    assert (tale.owed, tale.open) == (["sub 1", "Refunder 0"], {"u.0.0": "sub"})
    assert tale.ok("u.0.0", value=2).open == {"u.1.0": "round 1"}


@pytest.mark.parametrize("fn", [None, 7, "refund"])
def test_undo_must_be_callable(fn: Any) -> None:
    """A non-callable is refused where it is written, with the fix."""
    with pytest.raises(WrongType, match=r"charge\(...\).undo: takes an activity or a function of the result"):
        charge(1).undo(fn)  # type: ignore[unused-awaitable]


def test_undo_refuses_an_operation() -> None:
    """An operation in place of a function is one mistake, and not also a forgotten operation."""

    @workflow(name="w")
    def body() -> Durable[str]:
        with pytest.raises(WrongType):
            charge(1).undo(refund(1))  # type: ignore[arg-type, unused-awaitable]
        yield from sleep(0)
        return "fine"

    assert Tale(body).value == "fine"


def test_undo_of_an_undo_never_runs() -> None:
    """Steps of an undo may have undos, as in a helper that is used elsewhere too, but these never run."""

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from charge(1).undo(lambda amount: refund(amount).undo(lambda _: notify("again")))
        raise Declined("no")

    tale = Tale(body).ok("0").ok("u.0.0")
    assert isinstance(tale.error, Declined)


def test_continue_as_is_refused_while_undos_are_owed() -> None:
    """A new round would forget the undos: the workflow fails instead, and they run."""

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from charge(1).undo(refund)
        raise body.continue_as()

    tale = Tale(body).ok("0")
    assert tale.open == {"u.0.0": "refund 1"}
    error = tale.ok("u.0.0").error
    assert isinstance(error, OperationMisused)
    assert "continue_as while 1 undos are owed (refund)" in str(error)


def test_continue_as_that_is_cancelled_is_undone() -> None:
    """A cancelled body that raises `continue_as` ends with the cancellation, and its undos run."""

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from charge(1).undo(refund)
        try:
            yield from sleep(60)
        except Cancelled:
            raise body.continue_as() from None

    tale = Tale(body).ok("0").cancelled()
    assert tale.open == {"u.0.0": "refund 1"}
    assert isinstance(tale.ok("u.0.0").result, ContinueAs)


def test_result_that_cannot_be_stored_is_undone() -> None:
    """If the result of a workflow cannot be stored, the workflow fails with that error after its undos."""

    @workflow(name="w")
    def body() -> Durable[str]:
        yield from charge(1).undo(refund)
        return "too large"

    tale = Tale(body).ok("0")
    assert (tale.value, tale.session.owes) == ("too large", True)
    assert tale.refused(pack_error(Declined("too large"))).open == {"u.0.0": "refund 1"}
    assert repr(tale.ok("u.0.0").error) == "Declined('too large')"


def test_session_that_is_thrown_away_runs_no_undo() -> None:
    """A body may be evicted while it owes or runs undos: nothing runs, and nothing is logged."""
    for entries in (["0", "1"], ["0", "1", "2"]):
        tale = Tale(booking).ok(*entries)
        if len(entries) == 3:
            tale.cancelled()
        before = dict(tale.session.waits)
        tale.session.close()
        assert before
        assert not tale.session.owed()
        assert not tale.session.waits


def test_session_without_undo_makes_nothing_for_undos() -> None:
    """A body without undos has no object for them."""

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from gather(charge(1), charge(2))
        raise Declined("no")

    session = a_session(body)
    session.start()
    assert (session.owed(), session.failed_undos(), session.owes, session.interpreter.undos) == ([], [], False, None)
