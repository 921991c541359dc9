"""What `SyncWorkflowEngine` is made of: the line to its loop, its handles, and one group per noun.

Each method is the engine's own, called in the loop's thread and waited for.
"""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

import attrs
from anyio.lowlevel import current_token

from durable.engine.api.dead_letters import DeadLetters
from durable.engine.api.events import Events
from durable.engine.api.handle import WorkflowHandle
from durable.engine.api.loop_thread import LoopThread
from durable.engine.api.pauses import Pauses
from durable.engine.api.runs import Runs, Statuses
from durable.engine.api.schedules import Schedules
from durable.engine.api.updates import WorkflowUpdate
from durable.engine.operations import Delivered, Queued
from durable.engine.operations.views import Description, ScheduleSummary, WorkflowSummary
from durable.errors import EngineClosed, OperationMisused
from durable.model.dead_letters import DeadLetter, PendingEventInfo
from durable.model.records import HistoryEntry, OpenPause, WorkflowStatus
from durable.model.schedule import CatchUp, Overlap
from durable.runner.definitions import WorkflowCall
from durable.runner.ops import caller

P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


def refuse_on_loop() -> None:
    """Raises `OperationMisused` if an event loop runs in this thread: a call that waits would stop it meanwhile.

    An error and not a warning: a loop that stands still looks like a service that hangs, and nothing says why.
    """
    try:
        current_token()
    except RuntimeError:
        return
    raise OperationMisused(
        "SyncWorkflowEngine was used on a running event loop, which would stand still until the answer comes: use "
        "WorkflowEngine with 'async with' and 'await' (a notebook takes both at the top of a cell), or call it in "
        f"a thread, as with asyncio.to_thread ({caller()})"
    )


@attrs.define(eq=False)
class Line:
    """The way into the loop."""

    thread: LoopThread | None = None

    def wait(self, method: Callable[P, Awaitable[A]], *args: P.args, **kwargs: P.kwargs) -> A:
        """Call a coroutine function in the loop and wait for its answer."""
        refuse_on_loop()
        if self.thread is None:
            raise EngineClosed("the engine is not open")
        return self.thread.call(partial(method, *args, **kwargs))


@attrs.frozen(repr=False)
class SyncWorkflowHandle(Generic[R_co]):
    """A workflow that was started, now or long ago."""

    _line: Line
    _handle: WorkflowHandle[R_co]

    @property
    def id(self) -> str:
        """The workflow's id."""
        return self._handle.id

    def result(self, timeout: timedelta | float | None = None, *, wait_if_parked: bool = False) -> R_co:
        """Wait for the end, like `WorkflowHandle.result`."""
        return self._line.wait(self._handle.result, timeout, wait_if_parked=wait_if_parked)

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

    _line: Line
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

    _line: Line
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
class SyncEvents:
    """Events that no workflow has taken yet; see `WorkflowEngine.events`."""

    _line: Line
    _events: Events

    def list(
        self, *, name: str | None = None, to: str | None = None, limit: int = 100, after: int = 0
    ) -> builtins.list[PendingEventInfo]:
        """Pending events, oldest first."""
        return self._line.wait(self._events.list, name=name, to=to, limit=limit, after=after)

    def remove(self, event_id: int) -> None:
        """Remove a pending event."""
        self._line.wait(self._events.remove, event_id)


@attrs.frozen
class SyncDeadLetters:
    """Events that no workflow took; see `WorkflowEngine.dead_letters`."""

    _line: Line
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

    _line: Line
    _schedules: Schedules

    @overload
    def create(
        self,
        name: str,
        call: WorkflowCall[Any],
        *,
        cron: str,
        timezone: str | None = None,
        overlap: Overlap = ...,
        catch_up: CatchUp = ...,
        replace: bool = False,
    ) -> ScheduleSummary: ...
    @overload
    def create(
        self,
        name: str,
        call: WorkflowCall[Any],
        *,
        every: timedelta | float,
        overlap: Overlap = ...,
        catch_up: CatchUp = ...,
        replace: bool = False,
    ) -> ScheduleSummary: ...
    def create(
        self,
        name: str,
        call: WorkflowCall[Any],
        *,
        cron: str | None = None,
        every: timedelta | float | None = None,
        timezone: str | None = None,
        overlap: Overlap = Overlap.SKIP,
        catch_up: CatchUp = CatchUp.SKIP,
        replace: bool = False,
    ) -> ScheduleSummary:
        """Start a workflow by a cron expression in a time zone (UTC), or every so often from now on."""
        # Not by its overloads: each takes only one of the two plans.
        create = cast("Callable[..., Awaitable[ScheduleSummary]]", self._schedules.create)
        return self._line.wait(
            create, name, call,
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
