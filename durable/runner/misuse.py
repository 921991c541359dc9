"""Sentences for bodies that do what cannot work: they name the workflow, the line and the fix."""

from __future__ import annotations

from durable.errors import OperationMisused
from durable.runner.ops import Op

# How asyncio, trio, anyio and sniffio say that no loop is running.
_NO_LOOP = {
    "no running event loop",
    "must be called from async context",
    "NoEventLoopError",
    "AsyncLibraryNotFoundError",
}


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
