"""`WorkflowHandle`: one workflow, as a service sees it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Generic, TypeVar

import anyio

from durable.clock import SECOND, from_duration
from durable.engine.core import Core, service_call
from durable.engine.operations import AwaitEnd, CancelWorkflow, FindWorkflow
from durable.errors import UnknownWorkflow, WorkflowCancelled, WorkflowFailed
from durable.ids import check_reason
from durable.outcomes import error_summary, unpack_error
from durable.records import WorkflowRecord, WorkflowStatus

R_co = TypeVar("R_co", covariant=True)


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
