"""Mistakes in workflow code: each is refused with a message that names the place and the fix."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from durable.errors import OperationMisused
from durable.runner.combinators import gather, race
from durable.runner.definitions import Durable, WorkflowDef, workflow
from durable.runner.events import Event
from durable.runner.ops import IN_ACTIVITY, Op, sleep
from tests.runner.builders import (
    Declined,
    a_session,
    activity_ok,
    approval,
    charge,
    error_of,
    opened,
    run,
    timer_fired,
    value_of,
)


def misuse(definition: WorkflowDef[[], Any]) -> str:
    """The message that a workflow gets for misusing an operation before its first wait."""
    error = error_of(run(definition))
    assert isinstance(error, OperationMisused), error
    return str(error)


def line_of(definition: WorkflowDef[[], Any], text: str) -> str:
    """File and line of the first line of a body that contains a text."""
    lines, first = inspect.getsourcelines(definition.fn)
    number = next(index for index, line in enumerate(lines) if text in line)
    return f"{inspect.getsourcefile(definition.fn)}:{first + number}"


# --- operations that are never yielded ----------------------------------------------------------------------------


@workflow(name="runner.guards.dropped.generator")
def dropping() -> Durable[int]:
    """Forgets a `yield from`."""
    charge(1)  # type: ignore[unused-awaitable]  # the mistake
    return (yield from charge(2))


@workflow(name="runner.guards.dropped.coroutine")
async def async_dropping() -> int:
    """Forgets an `await`."""
    charge(1)  # type: ignore[unused-awaitable]  # the mistake
    return await charge(2)


@pytest.mark.parametrize("definition", [dropping, async_dropping], ids=["generator", "async def"])
def test_dropped_operation_is_named_at_the_next_one(definition: WorkflowDef[[], Any]) -> None:
    """The message names the operation, the function, the line and the fix."""
    name = definition.fn.__name__
    place = f"{line_of(definition, 'the mistake')} in {name}"
    expected = f"charge(...) was created at {place} but never yielded: did you forget 'yield from' (or 'await')?"
    assert misuse(definition) == expected


def test_dropped_operation_is_named_at_the_return() -> None:
    """A body that returns after it dropped an operation fails."""

    @workflow(name="w")
    def body() -> Durable[str]:
        yield from sleep(0)
        sleep(5)  # type: ignore[unused-awaitable]
        return "done"

    assert f"sleep was created at {line_of(body, 'sleep(5)')} in body but never yielded" in misuse(body)


def test_dropped_operations_are_named_together() -> None:
    """Several dropped operations give one error."""

    @workflow(name="w")
    def body() -> Durable[str]:
        approval.wait()  # type: ignore[unused-awaitable]
        gather(charge(1))  # type: ignore[unused-awaitable]
        charge(1).within(5).or_default(None)  # type: ignore[unused-awaitable]
        approval.send("yes", to="w")  # type: ignore[unused-awaitable]
        return "done"
        yield from sleep(1)

    parts = misuse(body).split("; ")
    assert [part.split(" was created")[0] for part in parts] == [
        "event approval", "gather", "charge(...) within 5 s or default", "send of event approval",
    ]  # fmt: skip


def test_dropped_operation_is_reported_once_and_cleanup_runs() -> None:
    """The body may catch the mistake and clean up, with operations. Then the workflow fails."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        charge(1)  # type: ignore[unused-awaitable]
        try:
            yield from charge(2)
        finally:
            yield from charge(3)

    session = a_session(body)
    [position] = opened(session.start())
    error = error_of(session.feed(activity_ok(1, position, "charge", 3)))
    assert "charge(...) was created at" in str(error)


def test_dropped_operation_does_not_hide_an_error() -> None:
    """A body that raises fails with its own error, even if it dropped an operation before."""

    @workflow(name="w")
    def body() -> Durable[None]:
        charge(1)  # type: ignore[unused-awaitable]
        raise Declined("mine")
        yield from sleep(1)

    assert type(error_of(run(body))) is Declined


def test_dropped_operation_in_a_branch_fails_the_branch() -> None:
    """A branch that drops an operation fails, and so does its workflow."""

    def branch() -> Durable[int]:
        charge(1)  # type: ignore[unused-awaitable]
        return 5
        yield from sleep(1)

    @workflow(name="w")
    def body() -> Durable[Any]:
        try:
            yield from gather(branch(), charge(2))
        except OperationMisused as error:
            return str(error)
        return "unreported"

    assert "in branch but never yielded" in misuse(body)


def test_dropped_operation_of_a_failed_branch_is_not_hidden_by_its_error() -> None:
    """The error of a branch may be caught, so the dropped operation is reported instead, with that error as context."""

    def branch() -> Durable[None]:
        charge(1)  # type: ignore[unused-awaitable]
        raise Declined("mine")
        yield from sleep(1)

    @workflow(name="w")
    def body() -> Durable[str]:
        try:
            yield from gather(branch())
        except Declined:
            yield from sleep(0)
        return "on"

    error = error_of(run(body))
    assert "in branch but never yielded" in str(error)
    assert type(error.__context__) is Declined


def test_operation_dropped_outside_a_workflow_is_not_reported() -> None:
    """Operations are values: making one outside of a workflow and dropping it is fine."""
    made = [charge(1), sleep(1), gather(charge(2))]
    made.clear()

    @workflow(name="w")
    def body() -> Durable[int]:
        return (yield from charge(1))

    assert opened(run(body)) == ["0"]


# --- operations used as something else ----------------------------------------------------------------------------


def as_list(op: Op[Any]) -> Any:
    """Takes it for a list."""
    return list(op)


def unpacked(op: Op[Any]) -> Any:
    """Takes it for a pair."""
    first, second = op
    return first, second


def starred(op: Op[Any]) -> Any:
    """Takes it for arguments."""
    return max(*op)


@pytest.mark.parametrize("use", [as_list, unpacked, starred])
@pytest.mark.parametrize("make", [lambda: charge(1), lambda: gather(charge(1)), lambda: charge(1).within(2)])
def test_operation_is_not_a_sequence(use: Callable[[Op[Any]], Any], make: Callable[[], Op[Any]]) -> None:
    """Iterating over an operation in a body is refused at once."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        use(make())
        yield from sleep(1)

    assert misuse(body).endswith("is an operation, not a sequence: write 'yield from' (or 'await') before it")


@pytest.mark.parametrize("use", [as_list, unpacked, starred])
@pytest.mark.parametrize("make", [lambda: charge(1), lambda: charge(1).within(5).or_default(2), gather])
def test_operation_outside_a_workflow_is_refused(
    use: Callable[[Op[Any]], Any], make: Callable[[], Op[Any]]
) -> None:  # fmt: skip
    """Only a workflow can run an operation, and the message says how."""
    with pytest.raises(OperationMisused, match="is an operation: only a workflow can run it, with 'yield from'"):
        use(make())


def test_operation_inside_an_activity_is_refused() -> None:
    """An activity that tries to run an operation gets the advice to call the plain function."""
    token = IN_ACTIVITY.set("any activity")
    try:
        with pytest.raises(OperationMisused, match=r"charge.* cannot run inside an activity: .*\.fn"):
            list(charge(1))
    finally:
        IN_ACTIVITY.reset(token)


@pytest.mark.parametrize("use", [list, bool], ids=["run", "tested"])
def test_event_send_inside_an_activity_is_refused(use: Callable[[Op[Any]], Any]) -> None:
    """An activity that tries to send an event as a workflow does gets the advice to use the engine."""
    token = IN_ACTIVITY.set("any activity")
    try:
        with pytest.raises(OperationMisused, match=r"send it with engine\.send_event"):
            use(Event[int]("paid").send(1))
    finally:
        IN_ACTIVITY.reset(token)


def test_bare_yield_of_an_operation_is_refused() -> None:
    """`yield op` without `from` is refused with its line, and the operation does not count as dropped."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        yield charge(1)

    assert misuse(body) == f"bare 'yield charge(...)': write 'yield from' ({line_of(body, 'yield charge')})"


def test_bare_yield_beside_other_operations_is_refused() -> None:
    """A bare `yield` is also refused after operations that were yielded correctly."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        yield from sleep(0)
        yield charge(1)

    assert "bare 'yield charge(...)'" in misuse(body)


@pytest.mark.parametrize("value", [None, 5, "text", [1], object, charge, int])
def test_yield_of_something_else_is_refused(value: Any) -> None:
    """The message for a yielded non-operation says what was yielded, where, and that I/O belongs in an activity."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        yield value

    kind = type(value).__name__
    assert misuse(body) == (
        f"workflow w yielded or awaited {kind}, which is not a durable operation: "
        f"do I/O in an activity ({line_of(body, 'yield value')})"
    )


class Foreign:
    """An awaitable from another library, such as a future."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield self


def test_await_of_a_foreign_awaitable_is_refused() -> None:
    """Awaiting an object that no workflow can wait for is refused."""

    async def helper() -> None:
        await Foreign()

    @workflow(name="w")
    async def body() -> Any:
        await helper()

    message = misuse(body)
    assert message.startswith("workflow w yielded or awaited Foreign, which is not a durable operation")
    assert f"{inspect.getsourcefile(Foreign)}:" in message


def items() -> Iterator[int]:
    """An iterator that is not a helper."""
    return iter([1])


@pytest.mark.parametrize("branch", [5, None, [sleep(1)], charge, items(), sleep, Foreign()])
@pytest.mark.parametrize(("verb", "combine"), [("gather", gather), ("race", race)])
def test_branch_that_is_not_an_operation_is_refused(branch: Any, verb: str, combine: Callable[..., Op[Any]]) -> None:
    """A combinator refuses by name anything that is neither an operation nor a helper."""
    expected = f"{verb} takes operations or generator helpers, not {type(branch).__name__}"
    with pytest.raises(OperationMisused, match=f"^{expected}$"):
        combine(sleep(1), branch)  # type: ignore[unused-awaitable]


# --- continue_as, and messages ------------------------------------------------------------------------------------


def test_continue_as_inside_a_branch_is_refused() -> None:
    """Only the workflow itself can continue: in a branch it is an error that the owner can catch."""

    @workflow(name="w")
    def body() -> Durable[str]:
        def branch() -> Durable[None]:
            yield from sleep(1)
            raise body.continue_as()

        try:
            yield from gather(branch(), approval.wait())
        except OperationMisused as error:
            return str(error)
        return "accepted"

    message = value_of(run(body, timer_fired(1, "0.0.0")))
    assert message == "continue_as inside a branch: only the workflow itself can continue"


def test_event_waits_are_shown_by_name_and_key() -> None:
    """In messages, a wait for an event shows the event's name and key."""
    assert str(Event[int]("paid").wait("k")) == "event paid[k]"
    assert str(approval.wait()) == "event approval"
    assert repr(approval) == "<event approval>"


def test_await_of_an_event_loops_own_sleep_is_refused() -> None:
    """Calling into an event loop is refused: the message says that there is none, where, and what to use instead."""

    @workflow(name="runner.guards.loop")
    async def loop() -> None:
        await asyncio.sleep(1)

    message = misuse(loop)
    assert "needs an event loop" in message
    assert line_of(loop, "asyncio.sleep") in message


def test_other_runtime_errors_are_left_alone() -> None:
    """Only the error for a missing loop is replaced."""

    @workflow(name="runner.guards.runtime")
    async def broken() -> None:
        raise RuntimeError("my own")

    assert str(error_of(run(broken))) == "my own"
