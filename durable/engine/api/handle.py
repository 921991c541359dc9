"""`WorkflowHandle`: one workflow, as a service sees it."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, Generic, TypeVar, overload

import anyio

from durable.engine.api.refs import WorkflowRef
from durable.engine.api.updates import Watch, read_progress
from durable.engine.api.way import Way, refuse_in_body, service_call
from durable.engine.operations import AwaitChange, AwaitEnd, CancelWorkflow, FindWorkflow, ReadProgress, Sight
from durable.errors import WorkflowCancelled, WorkflowFailed, WorkflowParked, WrongWorkflow
from durable.model.clock import SECOND, from_duration
from durable.model.codec import Coder
from durable.model.error_codec import error_summary, unpack_error
from durable.model.ids import check_reason
from durable.model.records import WorkflowRecord, WorkflowStatus
from durable.runner.definitions import WorkflowDef

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class WorkflowHandle(Generic[R_co]):
    """A workflow that was started, now or long ago. Making a handle reads nothing; its methods do.

    With a definition or a ref, the result is decoded as its type. With `must_check`, an id that belongs to another
    workflow raises `WrongWorkflow` on first use.
    """

    def __init__(
        self,
        way: Way,
        id: str,
        definition: WorkflowDef[Any, R_co] | WorkflowRef[R_co] | None = None,
        *,
        must_check: bool = False,
    ) -> None:
        self._way = way
        self.id = id
        # The workflow that the id belongs to, as far as the caller knows.
        self._definition = definition
        self._must_check = must_check

    @service_call
    async def result(self, timeout: timedelta | float | None = None, *, wait_if_parked: bool = False) -> R_co:
        """Wait for the end and return the result, or raise `WorkflowFailed` or `WorkflowCancelled`.

        Raises `WorkflowParked` if the workflow is parked or becomes so, unless `wait_if_parked` is True, and
        `TimeoutError` if it has not ended in time; the workflow itself is not affected by that.
        """
        await self._check()
        question = AwaitEnd(self.id, wait_if_parked)
        seconds = None if timeout is None else from_duration("result: timeout", timeout) / SECOND
        if seconds is None:
            return self._outcome(await self._way.ask_end(question))
        try:
            with anyio.fail_after(seconds):
                record = await self._way.ask_end(question)
        except TimeoutError:
            hint = f"engine.runs.describe({self.id!r}) says what it waits for"
            raise TimeoutError(f"workflow {self.id!r} has not ended within {seconds} s; {hint}") from None
        return self._outcome(record)

    def _outcome(self, record: WorkflowRecord) -> R_co:
        value: R_co = outcome_of(self._way, record, self._definition)
        return value

    async def _check(self) -> None:
        """Raises `WrongWorkflow` if the handle was made for another workflow than the one with this id."""
        if self._definition is None or not self._must_check:
            return
        record = await self._way.ask(FindWorkflow(self.id))
        # After `continue_as` another workflow has the id, and it is still the same run.
        if record is not None and not record.round and record.name != self._definition.name:
            raise WrongWorkflow(self.id, record.name, self._definition.name)

    @service_call
    async def status(self) -> WorkflowStatus | None:
        """Its status, None if no workflow with this id is stored."""
        await self._check()
        record = await self._way.ask(FindWorkflow(self.id))
        return None if record is None else record.status

    @service_call
    async def cancel(self, reason: str | None = None) -> bool:
        """Ask it to clean up and end. False if it has already ended."""
        await self._check()
        return await self._way.ask(CancelWorkflow(self.id, check_reason(reason)))

    @overload
    def progress(self) -> Coroutine[Any, Any, Any]: ...
    @overload
    def progress(self, type: type[T]) -> Coroutine[Any, Any, T | None]: ...
    def progress(self, type: Any = Any) -> Coroutine[Any, Any, Any]:
        """The value it published last, as JSON or as `type`; None if it has published nothing.

        This does not load the workflow. Raises `WorkflowNotFound`, and `CodecError` if the value does not fit the type.
        """
        refuse_in_body("WorkflowHandle.progress")
        return self._progress(type)

    async def _progress(self, type: Any) -> Any:
        await self._check()
        progress = await self._way.ask(ReadProgress(self.id))
        return read_progress(self._way.codec, self.id, None if progress is None else progress.value, type)

    @overload
    def watch(self) -> Watch[Any]: ...
    @overload
    def watch(self, type: type[T]) -> Watch[T]: ...
    def watch(self, type: Any = Any) -> Watch[Any]:
        """`async for update in handle.watch()`: its status now, then every change of status or progress.

        Every update was stored before it arrives. A slow consumer skips to the latest one. The last update is the end.
        """
        refuse_in_body("WorkflowHandle.watch")
        return Watch(self.id, self._change, self._way.codec, type)

    async def _change(self, seen: Sight | None) -> Sight:
        if seen is None:
            await self._check()
        sight: Sight = await self._way.ask_end(AwaitChange(self.id, seen))
        return sight

    def __repr__(self) -> str:
        return f"<workflow handle {self.id!r}>"


def outcome_of(
    way: Way, record: WorkflowRecord, expected: WorkflowDef[Any, Any] | WorkflowRef[Any] | None = None
) -> Any:
    """The result of a workflow that has ended, or its error raised.

    The result is decoded by `expected` if that is a ref, else by the registered definition, else by `expected`, else as
    plain JSON.
    """
    if record.status is WorkflowStatus.PARKED:
        raise WorkflowParked(record.id, record.park_detail or "")
    cause = None if record.error is None else unpack_error(record.error)
    if record.status is WorkflowStatus.CANCELLED:
        raise WorkflowCancelled(record.id, record.cancel_reason) from cause
    if record.error is not None:
        raise WorkflowFailed(record.id, *error_summary(record.error)) from cause
    return _result_coder(way, record, expected).unpack(record.result or "null")


def _result_coder(way: Way, record: WorkflowRecord, expected: WorkflowDef[Any, Any] | WorkflowRef[Any] | None) -> Coder:
    # After `continue_as` another workflow may have ended under the id. Its result has another type.
    is_expected = expected is not None and expected.name == record.name
    if is_expected and isinstance(expected, WorkflowRef):
        return expected.result_coder(way.codec)
    if way.registry.has(record.name, record.version):
        return way.registry.get(record.name, record.version).coder(way.codec).result
    if is_expected and isinstance(expected, WorkflowDef):
        return expected.coder(way.codec).result
    # Runs outlive their code, and their results are still readable as JSON.
    return way.codec.coder(Any, f"workflow {record.name}: result")
