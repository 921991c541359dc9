"""A mistake is reported even if a handler could hide it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

import pytest

from durable.errors import OperationMisused
from durable.runner.combinators import first_success, gather, settle
from durable.runner.definitions import Durable, WorkflowDef, workflow
from durable.runner.ops import sleep
from durable.runner.undo import saga
from tests.runner.builders import (
    Declined,
    a_session,
    activity_ok,
    charge,
    error_of,
    misuse,
    notify,
    opened,
    refuse,
    run,
    workflow_of,
)

log = logging.getLogger(__name__)


def swallowed() -> None:
    """Takes an operation for its result, inside a handler that catches everything."""
    with contextlib.suppress(Exception):
        assert charge(1)  # type: ignore[truthy-bool]


def test_broad_handler_does_not_hide_the_mistake() -> None:
    """A misuse that the body has caught is reported at the end of the step."""
    assert "its truth was tested" in misuse(workflow_of(swallowed))


def logged() -> Any:
    """Logs a caught error, then leaves an operation in a variable."""
    try:
        refuse(None)
    except Declined as error:
        log.warning("it was refused: %s", error)
    paid: Any = charge(1)
    paid = 5
    return paid + 1


def raised_from() -> Any:
    """Has a handler that raises another error, and overwrites an operation elsewhere."""
    try:
        paid: Any = charge(1)
        paid = 5
    except Declined as error:
        raise RuntimeError(error) from None
    return paid


@pytest.mark.parametrize("statement", [logged, raised_from], ids=lambda statement: statement.__name__)
def test_handler_that_only_logs_its_error_does_not_hide_a_mistake(statement: Callable[[], Any]) -> None:
    """An error that was only logged, or raised as another one, keeps no operation."""
    assert "but never yielded" in misuse(workflow_of(statement))


# --- handlers and combinators around the next operation -----------------------------------------------------------


def forgets() -> Durable[str]:
    """A helper that forgets a `yield from`."""
    charge(1)  # type: ignore[unused-awaitable]
    yield from sleep(0)
    return "done"


def returns_it() -> Durable[Any]:
    """A helper that returns something that has not run."""
    yield from sleep(0)
    return charge(1)


def raises_behind() -> Durable[None]:
    """A helper that forgets a `yield from`, and then raises."""
    charge(1)  # type: ignore[unused-awaitable]
    raise Declined("mine")
    yield from sleep(0)


def guarded(op: Any) -> Durable[None]:
    """Runs an operation whose failure must not matter."""
    try:
        yield from op
    except Exception:
        log.info("never mind")


@workflow(name="hidden.next")
def next_is_guarded() -> Durable[str]:
    """The next operation is inside a handler."""
    charge(1)  # type: ignore[unused-awaitable]
    yield from guarded(notify())
    return "shipped"


@workflow(name="hidden.async")
async def next_is_awaited() -> str:
    """The same with `await`."""
    charge(1)  # type: ignore[unused-awaitable]
    with contextlib.suppress(Exception):
        await notify()
    return "shipped"


@workflow(name="hidden.truth")
def truth_is_guarded() -> Durable[str]:
    """A truth test in one handler, the next operation in another."""
    swallowed()
    yield from guarded(sleep(0))
    return "shipped"


@workflow(name="hidden.bare")
def bare_is_guarded() -> Durable[str]:
    """A bare `yield` in a handler."""
    try:
        yield charge(1)
    except Exception:
        log.info("never mind")
    return "shipped"


@workflow(name="hidden.listed")
def listed_is_guarded() -> Durable[str]:
    """Takes an operation for a sequence, in a handler."""
    with contextlib.suppress(TypeError):
        list(charge(1))
    yield from sleep(0)
    return "shipped"


@workflow(name="hidden.everything")
def everything_is_caught() -> Durable[str]:
    """Catches everything."""
    charge(1)  # type: ignore[unused-awaitable]
    with contextlib.suppress(BaseException):
        yield from notify()
    return "shipped"


@workflow(name="hidden.continued")
def continues() -> Durable[str]:
    """Forgets a `yield from` and continues."""
    yield from sleep(0)
    charge(1)  # type: ignore[unused-awaitable]
    raise continues.continue_as()


def around(op: Callable[[], Any]) -> WorkflowDef[[], str]:
    """A workflow that catches every `Exception` around an operation."""

    @workflow(name="hidden.around")
    def body() -> Durable[str]:
        yield from guarded(op())
        return "shipped"

    return body


HIDDEN: dict[str, WorkflowDef[[], str]] = {
    "handler": next_is_guarded,
    "async": next_is_awaited,
    "truth": truth_is_guarded,
    "bare yield": bare_is_guarded,
    "sequence": listed_is_guarded,
    "bare except": everything_is_caught,
    "continue_as": continues,
    "helper": around(forgets),
    "gather": around(lambda: gather(forgets(), sleep(5))),
    "settle": around(lambda: settle(forgets(), sleep(5))),
    "first_success": around(lambda: first_success(forgets(), sleep(5))),
    "saga": around(lambda: saga(forgets())),
    "nested": around(lambda: settle(gather(forgets()))),
    "returned": around(lambda: settle(returns_it())),
    "own error": around(lambda: settle(raises_behind())),
}


@pytest.mark.parametrize("how", HIDDEN)
def test_mistake_fails_the_workflow_whatever_it_catches(how: str) -> None:
    """A forgotten operation fails the run, even if the next operation is guarded or in a branch."""
    assert "charge(...)" in misuse(HIDDEN[how])


def test_mistake_is_raised_at_the_next_operation() -> None:
    """The traceback of the failure shows the operation at which the mistake was raised."""
    trace = error_of(run(next_is_guarded)).__traceback__
    names = []
    while trace is not None:
        names.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert names[-2:] == ["guarded", "__iter__"]


def test_mistake_in_an_undo_does_not_hide_the_error_that_is_undone() -> None:
    """A mistake in the undo of a failed saga is a failed undo, and the saga's own error is raised."""

    def undoing(paid: int) -> Durable[None]:
        charge(paid)  # type: ignore[unused-awaitable]
        yield from notify()

    def steps() -> Durable[None]:
        yield from charge(1).undo(undoing)
        raise Declined("mine")

    @workflow(name="hidden.undo")
    def body(*caught: type[Exception]) -> Durable[str]:
        with contextlib.suppress(*caught):
            yield from saga(steps())
        return "shipped"

    ends = []
    for caught in ((), (Declined,)):
        session = a_session(body, *caught)
        [position] = opened(session.start())
        ends.append(error_of(session.feed(activity_ok(1, position, "charge", 1))))
        [undo] = session.failed_undos()
        assert "was created at" in str(undo)
    assert [type(error) for error in ends] == [Declined, OperationMisused]
