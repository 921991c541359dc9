"""`SyncWorkflowEngine`: the same engine for services without an event loop.

Not a second implementation: an event loop in a thread of its own, and calls that wait for its results. The methods are
made from those of `WorkflowEngine`; `sync_groups` says how.
"""

from __future__ import annotations

import atexit
import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, cast, overload

from typing_extensions import TypeVar

from durable.engine.api.client import WorkflowClient
from durable.engine.api.core import OPEN_ALREADY
from durable.engine.api.engine import WorkflowEngine
from durable.engine.api.loop_thread import LoopThread
from durable.engine.api.refs import WorkflowRef
from durable.engine.api.sync_groups import (
    Blocking,
    Line,
    OpenLine,
    SyncDeadLetters,
    SyncEvents,
    SyncPauses,
    SyncRuns,
    SyncSchedules,
    SyncWorkflowHandle,
    blocking,
    refuse_on_loop,
    returning_handle,
)
from durable.engine.operations.views import RecoveryReport
from durable.errors import OperationMisused
from durable.runner.definitions import WorkflowDef

P = ParamSpec("P")
R = TypeVar("R")
C_co = TypeVar("C_co", bound=WorkflowClient, covariant=True, default=WorkflowClient)


def _with_parameters_of(
    source: Callable[Concatenate[Any, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """For a method that passes everything on: type checkers and `inspect.signature` see the parameters of `source`."""
    return cast("Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]", functools.wraps(source))


class SyncWorkflowClient(Blocking[C_co]):
    """A client for services without an event loop: `with SyncWorkflowClient("orders.db") as client`.

    It takes the same arguments as `WorkflowClient` and has the same methods and groups, which wait instead of being
    awaited. They may be called from any thread, but not on a running event loop, which they would block.
    """

    @_with_parameters_of(WorkflowClient.__init__)
    def __init__(self, *args: Any, **settings: Any) -> None:
        client = WorkflowClient(*args, **settings)
        self._call_through(OpenLine(client), client)

    def _call_through(self, line: Line, source: WorkflowClient) -> None:
        """Make every method and group call this client or engine."""
        super().__init__(line, cast("C_co", source))
        self.runs = SyncRuns(line, source.runs)
        self.pauses = SyncPauses(line, source.pauses)
        self.events = SyncEvents(line, source.events)
        self.dead_letters = SyncDeadLetters(line, source.dead_letters)
        self.schedules = SyncSchedules(line, source.schedules)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of what was opened. Harmless when repeated; a client opens again when it is used."""
        if isinstance(self._line, OpenLine):
            self._line.close()

    start = returning_handle(WorkflowClient.start)
    send_event = blocking(WorkflowClient.send_event)
    query_status = blocking(WorkflowClient.query_status)
    query_result = blocking(WorkflowClient.query_result)
    cancel = blocking(WorkflowClient.cancel)
    terminate = blocking(WorkflowClient.terminate)

    @overload
    def handle(self, id: str) -> SyncWorkflowHandle[Any]: ...
    @overload
    def handle(self, id: str, wf: WorkflowDef[..., R] | WorkflowRef[R]) -> SyncWorkflowHandle[R]: ...
    def handle(self, id: str, wf: WorkflowDef[..., Any] | WorkflowRef[Any] | None = None) -> SyncWorkflowHandle[Any]:
        """The handle of a workflow that was started before, like `WorkflowClient.handle`."""
        handle = self._source.handle(id) if wf is None else self._source.handle(id, wf)
        return SyncWorkflowHandle(self._line, handle)


class SyncWorkflowEngine(SyncWorkflowClient[WorkflowEngine]):
    """An engine for services without an event loop: `with SyncWorkflowEngine("orders.db") as engine`.

    It takes the same arguments as `WorkflowEngine` and has the same methods and groups, which wait instead of being
    awaited. They may be called from any thread, also by plain activities, but not on a running event loop, which they
    would block. `async def` activities run on the loop of the engine's own thread.
    """

    @_with_parameters_of(WorkflowEngine.__init__)
    def __init__(self, *args: Any, **settings: Any) -> None:
        self._call_through(Line(), WorkflowEngine(*args, **settings))

    def __enter__(self) -> Self:
        refuse_on_loop()
        if self._line.thread is not None:
            raise OperationMisused(OPEN_ALREADY)
        thread = LoopThread(self._source)
        try:
            thread.open()
            # A program may end without leaving the block. Then this closes the engine while its thread still runs.
            atexit.register(thread.close)
            self._line.thread = thread
            return self
        except BaseException:
            # Also an interrupt between any two lines: `__exit__` will not be called.
            self._line.thread = None
            atexit.unregister(thread.close)
            thread.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        thread = self._line.thread
        if thread is None or thread.is_forked():
            # A forked process has nothing to close. `thread` stays, so that calls there raise `EngineForked`.
            return
        try:
            thread.close()
        finally:
            self._line.thread = None
            atexit.unregister(thread.close)

    recover = blocking(WorkflowEngine.recover)
    backup = blocking(WorkflowEngine.backup)
    shutdown = blocking(WorkflowEngine.shutdown)

    def close(self) -> None:
        """The same as `shutdown()`, so that an engine may be used where a client is expected."""
        self.shutdown()

    @property
    def is_owner(self) -> bool:
        """Whether this process owns the store and runs its workflows, unless it stands by."""
        return self._source.is_owner

    @property
    def recovery(self) -> RecoveryReport | None:
        """What the last start in this process found and did; None before the first, and while it has only stood by."""
        return self._source.recovery
