"""`WorkflowHandle`: one workflow, as a service sees it."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, Generic, TypeVar, overload

import anyio

from durable.clock import SECOND, from_duration
from durable.engine.core import Core, refuse_in_body, service_call
from durable.engine.operations import AwaitChange, AwaitEnd, CancelWorkflow, FindWorkflow, ReadProgress, Sight
from durable.engine.updates import Watch, read_progress
from durable.errors import UnknownWorkflow, WorkflowCancelled, WorkflowFailed
from durable.ids import check_reason
from durable.outcomes import error_summary, unpack_error
from durable.records import WorkflowRecord, WorkflowStatus

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class WorkflowHandle(Generic[R_co]):
    """A workflow that was started, now or long ago."""

    def __init__(self, core: Core, id: str) -> None:
        self._core = core
        self.id = id

    @service_call
    async def result(self, timeout: timedelta | float | None = None) -> R_co:
        """Wait for the end: the result, or `WorkflowFailed`, `WorkflowCancelled`, `TimeoutError`."""
        if timeout is None:
            record = await self._core.ask_end(AwaitEnd(self.id))
        else:
            with anyio.fail_after(from_duration("result: timeout", timeout) / SECOND):
                record = await self._core.ask_end(AwaitEnd(self.id))
        value: R_co = outcome_of(self._core, record)
        return value

    @service_call
    async def status(self) -> WorkflowStatus | None:
        """How it stands, None if no such workflow is stored."""
        record = await self._core.ask(FindWorkflow(self.id))
        return None if record is None else record.status

    @service_call
    async def cancel(self, reason: str | None = None) -> bool:
        """Ask it to clean up and end; False if it has ended already."""
        return await self._core.ask(CancelWorkflow(self.id, check_reason(reason)))

    @overload
    def progress(self) -> Coroutine[Any, Any, Any]: ...
    @overload
    def progress(self, type: type[T]) -> Coroutine[Any, Any, T | None]: ...
    def progress(self, type: Any = Any) -> Coroutine[Any, Any, Any]:
        """What it has published last, as JSON or as a type that it fits; None if nothing yet.

        The workflow is not loaded for this. Raises `WorkflowNotFound`, or `CodecError` for a type that does not fit.
        """
        refuse_in_body("WorkflowHandle.progress")
        return self._progress(type)

    async def _progress(self, type: Any) -> Any:
        found = await self._core.ask(ReadProgress(self.id))
        return read_progress(self._core.codec, self.id, None if found is None else found.value, type)

    @overload
    def watch(self) -> Watch[Any]: ...
    @overload
    def watch(self, type: type[T]) -> Watch[T]: ...
    def watch(self, type: Any = Any) -> Watch[Any]:
        """`async for update in handle.watch()`: how it stands now, then every change of status or progress.

        What is told is stored. A slow consumer sees the latest; the end is always told, and is the last.
        """
        refuse_in_body("WorkflowHandle.watch")
        return Watch(self.id, self._change, self._core.codec, type)

    async def _change(self, seen: Sight | None) -> Sight:
        sight: Sight = await self._core.ask_end(AwaitChange(self.id, seen))
        return sight

    def __repr__(self) -> str:
        return f"<workflow handle {self.id!r}>"


def outcome_of(core: Core, record: WorkflowRecord) -> Any:
    """The result of a workflow that has ended, or its error raised."""
    cause = None if record.error is None else unpack_error(record.error)
    if record.status is WorkflowStatus.CANCELLED:
        raise WorkflowCancelled(record.id, record.cancel_reason) from cause
    if record.error is not None:
        raise WorkflowFailed(record.id, *error_summary(record.error)) from cause
    text = record.result or "null"
    try:
        definition = core.registry.get(record.name, record.version)
    except UnknownWorkflow:
        # Old runs outlive their code; their results are still JSON.
        return core.codec.coder(Any, f"workflow {record.name}: result").unpack(text)
    return definition.coder(core.codec).result.unpack(text)
