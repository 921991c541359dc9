"""`SyncWorkflowEngine`: the same engine for services without an event loop.

Not a second implementation: a loop in a thread of its own (anyio's portal), and calls that wait for its answers.
"""

from __future__ import annotations

import atexit
import builtins
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

import attrs
from anyio.from_thread import BlockingPortal, start_blocking_portal

from durable.engine.engine import WorkflowEngine
from durable.engine.groups import DeadLetters, Pauses, Runs, Statuses
from durable.engine.handle import WorkflowHandle
from durable.engine.operations import Delivered, Queued
from durable.engine.planner import Schedules
from durable.engine.updates import WorkflowUpdate
from durable.engine.views import Description, RecoveryReport, ScheduleSummary, WorkflowSummary
from durable.errors import EngineClosed
from durable.records import DeadLetter, HistoryEntry, OpenPause, WorkflowStatus
from durable.runner.definitions import Call
from durable.runner.events import Event
from durable.schedule import CatchUp, Overlap

P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


@attrs.define(eq=False)
class _Line:
    """The way into the loop."""

    portal: BlockingPortal | None = None

    def wait(self, method: Callable[P, Awaitable[A]], *args: P.args, **kwargs: P.kwargs) -> A:
        """Call a coroutine function in the loop and wait for its answer."""
        if self.portal is None:
            raise EngineClosed("the engine is not open")
        return self.portal.call(partial(method, *args, **kwargs))


@attrs.frozen(repr=False)
class SyncWorkflowHandle(Generic[R_co]):
    """A workflow that was started, now or long ago."""

    _line: _Line
    _handle: WorkflowHandle[R_co]

    @property
    def id(self) -> str:
        """The workflow's id."""
        return self._handle.id

    def result(self, timeout: timedelta | float | None = None) -> R_co:
        """Wait for the end, like `WorkflowHandle.result`."""
        return self._line.wait(self._handle.result, timeout)

    def status(self) -> WorkflowStatus | None:
        """How it stands, None if no such workflow is stored."""
        return self._line.wait(self._handle.status)

    def cancel(self, reason: str | None = None) -> bool:
        """Ask it to clean up and end; False if it has ended already."""
        return self._line.wait(self._handle.cancel, reason)

    @overload
    def progress(self) -> Any: ...
    @overload
    def progress(self, type: type[T]) -> T | None: ...
    def progress(self, type: Any = Any) -> Any:
        """What it has published last, like `WorkflowHandle.progress`."""
        return self._line.wait(self._handle.progress, type)

    @overload
    def watch(self) -> Iterator[WorkflowUpdate[Any]]: ...
    @overload
    def watch(self, type: type[T]) -> Iterator[WorkflowUpdate[T]]: ...
    def watch(self, type: Any = Any) -> Iterator[WorkflowUpdate[Any]]:
        """`for update in handle.watch()`: how it stands now, then every change, like `WorkflowHandle.watch`."""
        changes = self._handle.watch(type)
        return iter(lambda: self._line.wait(changes.next), None)

    def __repr__(self) -> str:
        return repr(self._handle)


@attrs.frozen
class SyncRuns:
    """The workflows of an engine; see `WorkflowEngine.runs`."""

    _line: _Line
    _runs: Runs

    def list(
        self,
        *,
        status: Statuses = None,
        name: str | None = None,
        tag: str | None = None,
        since: datetime | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> builtins.list[WorkflowSummary]:
        """Workflows, newest first."""
        return self._line.wait(
            self._runs.list, status=status, name=name, tag=tag, since=since, limit=limit, after=after
        )

    def count(
        self,
        *,
        status: Statuses = None,
        name: str | None = None,
        tag: str | None = None,
        since: datetime | None = None,
    ) -> int:
        """How many workflows fit."""
        return self._line.wait(self._runs.count, status=status, name=name, tag=tag, since=since)

    def history(self, id: str) -> builtins.list[HistoryEntry]:
        """Everything a workflow has learnt in this round, in order."""
        return self._line.wait(self._runs.history, id)

    def describe(self, id: str) -> Description:
        """What a workflow waits for, and where."""
        return self._line.wait(self._runs.describe, id)

    def retry(self, id: str) -> SyncWorkflowHandle[Any]:
        """See `WorkflowEngine.runs.retry`."""
        return SyncWorkflowHandle(self._line, self._line.wait(self._runs.retry, id))

    def fork(self, id: str, from_position: str, *, new_id: str | None = None) -> SyncWorkflowHandle[Any]:
        """See `WorkflowEngine.runs.fork`."""
        return SyncWorkflowHandle(self._line, self._line.wait(self._runs.fork, id, from_position, new_id=new_id))

    def repair(self, id: str, position: str, value: Any, reason: str) -> None:
        """See `WorkflowEngine.runs.repair`."""
        self._line.wait(self._runs.repair, id, position, value, reason)

    def purge(self, older_than: timedelta | float) -> int:
        """Remove workflows that ended longer ago than this; how many."""
        return self._line.wait(self._runs.purge, older_than)


@attrs.frozen
class SyncPauses:
    """Questions that workflows have put to people; see `WorkflowEngine.pauses`."""

    _line: _Line
    _pauses: Pauses

    def list(
        self, *, workflow_id: str | None = None, name: str | None = None, limit: int = 100, after: int = 0
    ) -> builtins.list[OpenPause]:
        """Open pauses, oldest first."""
        return self._line.wait(self._pauses.list, workflow_id=workflow_id, name=name, limit=limit, after=after)

    def resume(self, workflow_id: str, pause_id: str, answer: Any) -> None:
        """Answer a pause; the answer is durable when this returns."""
        self._line.wait(self._pauses.resume, workflow_id, pause_id, answer)

    def cancel(self, workflow_id: str, pause_id: str, reason: str | None = None) -> None:
        """Take a question back."""
        self._line.wait(self._pauses.cancel, workflow_id, pause_id, reason)


@attrs.frozen
class SyncDeadLetters:
    """Events that their workflow never took; see `WorkflowEngine.dead_letters`."""

    _line: _Line
    _letters: DeadLetters

    def list(self, *, limit: int = 100, after: int = 0) -> builtins.list[DeadLetter]:
        """Dead letters, oldest first."""
        return self._line.wait(self._letters.list, limit=limit, after=after)

    def replay(self, letter_id: int, to: str | None = None) -> Delivered | Queued:
        """Send a dead letter again."""
        return self._line.wait(self._letters.replay, letter_id, to)

    def remove(self, letter_id: int) -> None:
        """Forget a dead letter."""
        self._line.wait(self._letters.remove, letter_id)


@attrs.frozen
class SyncSchedules:
    """Workflows that are started again and again; see `WorkflowEngine.schedules`."""

    _line: _Line
    _schedules: Schedules

    def create(
        self,
        name: str,
        call: Call[Any],
        *,
        cron: str | None = None,
        every: timedelta | float | None = None,
        timezone: str | None = None,
        overlap: Overlap = Overlap.SKIP,
        catch_up: CatchUp = CatchUp.SKIP,
        replace: bool = False,
    ) -> ScheduleSummary:
        """Start a workflow by a cron expression in a time zone (UTC), or every so often from now on."""
        return self._line.wait(
            self._schedules.create, name, call,
            cron=cron, every=every, timezone=timezone, overlap=overlap, catch_up=catch_up, replace=replace,
        )  # fmt: skip

    def pause(self, name: str) -> None:
        """Let no tick start anything."""
        self._line.wait(self._schedules.pause, name)

    def resume(self, name: str) -> None:
        """Go on with the next tick."""
        self._line.wait(self._schedules.resume, name)

    def trigger(self, name: str, *, id: str | None = None) -> SyncWorkflowHandle[Any]:
        """Start a run now."""
        return SyncWorkflowHandle(self._line, self._line.wait(self._schedules.trigger, name, id=id))

    def delete(self, name: str) -> None:
        """Forget a schedule; its runs go on."""
        self._line.wait(self._schedules.delete, name)

    def list(self, *, limit: int = 100, after: str | None = None, upcoming: int = 3) -> builtins.list[ScheduleSummary]:
        """Schedules by name, each with so many of its next ticks."""
        return self._line.wait(self._schedules.list, limit=limit, after=after, upcoming=upcoming)


class SyncWorkflowEngine:
    """An engine for services without an event loop: `with SyncWorkflowEngine("orders.db") as engine`.

    Takes the same arguments as `WorkflowEngine`. Its methods may be called from any thread.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        self._engine = WorkflowEngine(*args, **settings)
        self._line = _Line()
        self._stack = ExitStack()
        self.runs = SyncRuns(self._line, self._engine.runs)
        self.pauses = SyncPauses(self._line, self._engine.pauses)
        self.dead_letters = SyncDeadLetters(self._line, self._engine.dead_letters)
        self.schedules = SyncSchedules(self._line, self._engine.schedules)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._line.portal = stack.enter_context(start_blocking_portal("asyncio"))
            stack.callback(setattr, self._line, "portal", None)
            stack.enter_context(self._line.portal.wrap_async_context_manager(self._engine))
            self._stack = stack.pop_all()
        # A program may end without leaving the block. The loop's thread is then joined by whoever collects it, for
        # ever; so the engine is closed while threads still run.
        atexit.register(self._stack.close)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        atexit.unregister(self._stack.close)
        self._stack.close()

    def start(
        self,
        call: Call[R],
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

    def handle(self, id: str) -> SyncWorkflowHandle[Any]:
        """The handle of a workflow that was started before."""
        return SyncWorkflowHandle(self._line, self._engine.handle(id))

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

    def recover(self) -> RecoveryReport:
        """Go on with what is running and look again at what is parked."""
        return self._line.wait(self._engine.recover)

    def shutdown(self, drain: timedelta | float | None = None) -> None:
        """Take no more work, let activities finish for `drain`, then leave."""
        self._line.wait(self._engine.shutdown, drain)
