"""Sentences for bodies that do what cannot work: they name the workflow, the line and the fix."""

from __future__ import annotations

from types import CoroutineType, GeneratorType

from durable.errors import OperationMisused
from durable.runner.definitions import ContinueRequested
from durable.runner.fibers import Fiber
from durable.runner.forgotten import likely_place
from durable.runner.limits import too_deep
from durable.runner.loops import Break
from durable.runner.ops import Op, Outcome, Raised, Returned

# How asyncio, trio, anyio and sniffio say that no loop is running.
_NO_LOOP = {
    "no running event loop",
    "must be called from async context",
    "NoEventLoopError",
    "AsyncLibraryNotFoundError",
}
# What a helper makes when it is called.
_HELPERS = (GeneratorType, CoroutineType)


class Mistake(BaseException):
    """Thrown into a body whose code is wrong. It is not an `Exception`, so that a broad handler does not hide it."""

    def __init__(self, error: OperationMisused) -> None:
        super().__init__(str(error))
        self.error = error


class Mistaken(Raised):
    """It ended with a mistake in its code: the whole workflow fails, whatever its handlers and combinators catch."""

    __slots__ = ()
    error: OperationMisused

    @property
    def thrown(self) -> Mistake:
        """What is thrown into a body in its place."""
        return Mistake(self.error).with_traceback(self.error.__traceback__)


def not_taken(workflow: str, op: object, where: str | None) -> str:
    """What is wrong with something that a body has yielded."""
    if isinstance(op, Op):
        op._used = True
        return f"bare 'yield {op}': write 'yield from' ({where})"
    return (
        f"workflow {workflow} yielded or awaited {type(op).__name__}, which is no durable operation: "
        f"do I/O in an activity ({where})"
    )


def foreign(workflow: str, error: BaseException) -> OperationMisused | None:
    """What a body did that awaited an awaitable of an event loop: there is no loop here, so that has failed."""
    if not isinstance(error, RuntimeError) or not {type(error).__name__, str(error)} & _NO_LOOP:
        return None
    trace = error.__traceback__
    # The frame below ours is the body's.
    trace = trace.tb_next or trace if trace is not None else None
    where = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace is not None else ""
    misused = OperationMisused(
        f"workflow {workflow} used something that needs an event loop, which is no durable operation: "
        f"do I/O in an activity, and wait with durable's own sleep(){where}"
    )
    misused.__cause__ = error
    return misused


def returned(workflow: str, fiber: Fiber, value: object) -> Outcome:
    """How a fiber ends that has returned. Neither a workflow nor a branch may return what still has to run."""
    if isinstance(value, Break):
        return _checked(workflow, fiber, value, value.value)
    return _checked(workflow, fiber, value, value)


def _checked(workflow: str, fiber: Fiber, result: object, value: object) -> Outcome:
    if isinstance(value, Op):
        value._used = True
        what, fix = str(value), "write 'return (yield from ...)' or 'return await ...' to return its result"
    elif isinstance(value, ContinueRequested):
        value.is_used = True
        what, fix = str(value), "write 'raise' instead of 'return' to continue"
    elif isinstance(value, _HELPERS):
        what = f"{getattr(value, '__name__', type(value).__name__)}(...)"
        fix = "write 'return (yield from ...)' or 'return await ...' to run it and return its result"
        value.close()
    else:
        return Returned(result)
    where = likely_place(getattr(fiber.body, "gi_code", None) or fiber.body.cr_code, what, returned=True)
    who = f"workflow {workflow}" if fiber.owner is None else f"a branch of workflow {workflow}"
    return Mistaken(OperationMisused(f"{who} returned {what}, which has not run: {fix} ({where})"))


def raised(workflow: str, fiber: Fiber, error: BaseException, mistake: Mistaken | None) -> Raised:
    """How a fiber ends that has raised, perhaps behind a mistake that it was not told of yet.

    The error of the body itself fails the workflow in any case. That of a branch may be caught, which must not hide
    the mistake.

    The error of a branch may be kept for long. The operations that it kept from running were not forgotten.
    """
    if isinstance(error, Mistake):
        return Mistaken(error.error.with_traceback(error.__traceback__))
    trace = None if fiber.owner is None else error.__traceback__
    while trace is not None:
        for value in trace.tb_frame.f_locals.values():
            for held in value if isinstance(value, list | tuple) else (value,):
                if isinstance(held, Op):
                    held._used = True
        trace = trace.tb_next
    if mistake is not None and fiber.owner is not None:
        mistake.error.__context__ = error
        return mistake
    return Raised(foreign(workflow, error) or too_deep(workflow, error) or error)
