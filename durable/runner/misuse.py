"""Error messages for mistakes in bodies. Each names the workflow, the line and the fix.

A mistake is thrown into the body as `Mistake`, which broad handlers do not catch, and kept as `Mistaken` by the
interpreter. Even if the body catches the `Mistake`, the workflow fails: with the `OperationMisused` inside, or with an
error that the body itself raises.
"""

from __future__ import annotations

from types import CoroutineType, GeneratorType
from typing import Any

from durable.errors import OperationMisused
from durable.runner.definitions import ContinueRequested
from durable.runner.fibers import Fiber
from durable.runner.forgotten import likely_place
from durable.runner.limits import too_deep
from durable.runner.ops import Op, Raised

# The messages, or class names, of errors by asyncio, trio, anyio and sniffio when no event loop is running.
_NO_LOOP = {
    "no running event loop",
    "must be called from async context",
    "NoEventLoopError",
    "AsyncLibraryNotFoundError",
}
# What a body may create and must not return: it has not run. The last two are what a call of a helper creates.
UNRUN = (Op, ContinueRequested, GeneratorType, CoroutineType)


class Mistake(BaseException):
    """Thrown into a body whose code is wrong. It is not an `Exception`, so `except Exception` does not hide it."""

    def __init__(self, error: OperationMisused) -> None:
        super().__init__(str(error))
        self.error = error


class Mistaken(Raised):
    """The outcome of code with a mistake: the whole workflow fails, whatever its handlers and combinators catch."""

    __slots__ = ()
    error: OperationMisused

    @property
    def thrown(self) -> Mistake:
        """The `Mistake` to throw into a body instead of the error."""
        return Mistake(self.error).with_traceback(self.error.__traceback__)


def not_taken(workflow: str, op: object, where: str | None) -> str:
    """The message for a body that yielded something other than an announced operation."""
    if isinstance(op, Op):
        op._used = True
        return f"bare 'yield {op}': write 'yield from' ({where})"
    return (
        f"workflow {workflow} yielded or awaited {type(op).__name__}, which is not a durable operation: "
        f"do I/O in an activity ({where})"
    )


def foreign(workflow: str, error: BaseException) -> OperationMisused | None:
    """The error for a body that awaited something of an event loop; None if `error` has another cause.

    No event loop runs here, so such an await has failed with one of the errors in `_NO_LOOP`.
    """
    if not isinstance(error, RuntimeError) or not {type(error).__name__, str(error)} & _NO_LOOP:
        return None
    trace = error.__traceback__
    # The outermost frame is the interpreter's; the next one is the body's.
    trace = trace.tb_next or trace if trace is not None else None
    where = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace is not None else ""
    misused = OperationMisused(
        f"workflow {workflow} used something that needs an event loop, which is not a durable operation: "
        f"do I/O in an activity, and wait with durable's own sleep(){where}"
    )
    misused.__cause__ = error
    return misused


def unrun(workflow: str, fiber: Fiber, result: Any) -> Mistaken:
    """The mistake of a fiber that returned one of `UNRUN`."""
    if isinstance(result, ContinueRequested):
        result.is_used = True
        text, fix = str(result), "write 'raise' instead of 'return' to continue"
    else:
        fix = "write 'return (yield from ...)' or 'return await ...' to run it and return its result"
        if isinstance(result, Op):
            result._used = True
            text = str(result)
        else:
            text = f"{result.__name__}(...)"
            result.close()
    where = likely_place(getattr(fiber.body, "gi_code", None) or fiber.body.cr_code, text, returned=True)
    subject = f"workflow {workflow}" if fiber.owner is None else f"a branch of workflow {workflow}"
    return Mistaken(OperationMisused(f"{subject} returned {text}, which has not run: {fix} ({where})"))


def raised(workflow: str, fiber: Fiber, error: BaseException, mistake: Mistaken | None) -> Raised:
    """The outcome of a fiber that raised `error`, perhaps after a mistake that was not thrown into it yet.

    The error of the body itself fails the workflow in any case. The error of a branch may be caught, and that must not
    hide the mistake.

    The error of a branch may also be kept for a long time. Operations in its traceback that never ran were stopped by
    the error, not forgotten, so they are marked as used.
    """
    if isinstance(error, Mistake):
        return Mistaken(error.error.with_traceback(error.__traceback__))
    trace = None if fiber.owner is None else error.__traceback__
    while trace is not None:
        for value in trace.tb_frame.f_locals.values():
            for item in value if isinstance(value, list | tuple) else (value,):
                if isinstance(item, Op):
                    item._used = True
        trace = trace.tb_next
    if mistake is not None and fiber.owner is not None:
        mistake.error.__context__ = error
        return mistake
    return Raised(foreign(workflow, error) or too_deep(workflow, error) or error)
