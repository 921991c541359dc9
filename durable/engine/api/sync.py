"""`SyncWorkflowEngine`: the same engine for services without an event loop.

Not a second implementation: a loop in a thread of its own, and calls that wait for its answers.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable
from datetime import timedelta
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, overload

from durable.engine.api.core import OPEN_ALREADY
from durable.engine.api.engine import WorkflowEngine
from durable.engine.api.loop_thread import LoopThread
from durable.engine.api.sync_groups import (
    Line,
    SyncDeadLetters,
    SyncEvents,
    SyncPauses,
    SyncRuns,
    SyncSchedules,
    SyncWorkflowHandle,
    refuse_on_loop,
)
from durable.engine.operations import Delivered, Queued
from durable.engine.operations.views import RecoveryReport
from durable.errors import OperationMisused
from durable.model.records import WorkflowStatus
from durable.runner.definitions import WorkflowCall, WorkflowDef
from durable.runner.events import Event

P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class SyncWorkflowEngine:
    """An engine for services without an event loop: `with SyncWorkflowEngine("orders.db") as engine`.

    Takes the same arguments as `WorkflowEngine`. Its methods may be called from any thread.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        self._engine = WorkflowEngine(*args, **settings)
        self._line = Line()
        self.runs = SyncRuns(self._line, self._engine.runs)
        self.pauses = SyncPauses(self._line, self._engine.pauses)
        self.events = SyncEvents(self._line, self._engine.events)
        self.dead_letters = SyncDeadLetters(self._line, self._engine.dead_letters)
        self.schedules = SyncSchedules(self._line, self._engine.schedules)

    def __enter__(self) -> Self:
        refuse_on_loop()
        if self._line.thread is not None:
            raise OperationMisused(OPEN_ALREADY)
        thread = LoopThread(self._engine)
        try:
            thread.open()
            # A program may end without leaving the block: then the engine is closed while its thread still runs.
            atexit.register(thread.close)
            self._line.thread = thread
            return self
        except BaseException:
            # Also an interrupt, wherever it comes: nobody will call `__exit__`.
            self._line.thread = None
            atexit.unregister(thread.close)
            thread.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        thread = self._line.thread
        if thread is None or thread.is_forked():
            # In a forked process there is nothing to close, and calls still say why they cannot be made.
            return
        try:
            thread.close()
        finally:
            self._line.thread = None
            atexit.unregister(thread.close)

    def start(
        self,
        call: WorkflowCall[R],
        *,
        id: str | None = None,
        delay: timedelta | float | None = None,
        tags: Iterable[str] | None = None,
    ) -> SyncWorkflowHandle[R]:
        """Begin a workflow; it is durable when this returns."""
        handle = self._line.wait(self._engine.start, call, id=id, delay=delay, tags=tags)
        return SyncWorkflowHandle(self._line, handle)

    def send_event(
        self,
        event: Event[T],
        payload: T,
        *,
        to: str | None = None,
        key: str | None = None,
        event_id: str | None = None,
        allow_unstarted: bool = False,
    ) -> Delivered | Queued:
        """Send an event to one workflow, or untargeted; it is durable when this returns."""
        return self._line.wait(
            self._engine.send_event, event, payload,
            to=to, key=key, event_id=event_id, allow_unstarted=allow_unstarted,
        )  # fmt: skip

    @overload
    def handle(self, id: str) -> SyncWorkflowHandle[Any]: ...
    @overload
    def handle(self, id: str, wf: WorkflowDef[..., R]) -> SyncWorkflowHandle[R]: ...
    def handle(self, id: str, wf: WorkflowDef[..., Any] | None = None) -> SyncWorkflowHandle[Any]:
        """The handle of a workflow that was started before, like `WorkflowEngine.handle`."""
        return SyncWorkflowHandle(self._line, self._engine.handle(id) if wf is None else self._engine.handle(id, wf))

    def query_status(self, id: str) -> WorkflowStatus | None:
        """How a workflow stands, None if there is none with this id."""
        return self._line.wait(self._engine.query_status, id)

    def query_result(self, id: str) -> Any:
        """A workflow's result once it has succeeded, else None."""
        return self._line.wait(self._engine.query_result, id)

    def cancel(self, id: str, reason: str | None = None) -> bool:
        """Ask a workflow to clean up and end; False if it has ended already."""
        return self._line.wait(self._engine.cancel, id, reason)

    def terminate(self, id: str, reason: str | None = None) -> bool:
        """End a workflow at once; False if it has ended already."""
        return self._line.wait(self._engine.terminate, id, reason)

    @property
    def recovery(self) -> RecoveryReport | None:
        """What the last start came to; None before the first."""
        return self._engine.recovery

    def recover(self) -> RecoveryReport:
        """Go on with what is running and look again at what is parked."""
        return self._line.wait(self._engine.recover)

    def backup(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Copy the store to a file while the engine works."""
        self._line.wait(self._engine.backup, path, overwrite=overwrite)

    def shutdown(self, drain: timedelta | float | None = None) -> None:
        """Take no more work, let activities finish for `drain`, then leave."""
        self._line.wait(self._engine.shutdown, drain)
