"""What `SyncWorkflowEngine` is made of: the line to its loop, its handles, and one group per noun.

The async classes are the only definition. `blocking(Runs.list)` is a method with the parameters, the types (overloads
included) and the docstring of `Runs.list` that runs it in the loop's thread and waits for its result; a method that
returns a handle goes through `returning_handle`. So a new method costs one line here, and
`tests/engine/test_sync_facade.py` fails until that line is written.

Only what returns at once, without a coroutine, is written out: `id` and `watch` of a handle, `handle` of the engine.
"""

from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

import attrs
from anyio.lowlevel import current_token

from durable.engine.api.client import WorkflowClient
from durable.engine.api.dead_letters import DeadLetters
from durable.engine.api.events import Events
from durable.engine.api.handle import WorkflowHandle
from durable.engine.api.loop_thread import LoopThread
from durable.engine.api.pauses import Pauses
from durable.engine.api.runs import Runs
from durable.engine.api.schedules import Schedules
from durable.engine.api.updates import WorkflowUpdate
from durable.errors import EngineClosed, OperationMisused
from durable.runner.ops import caller

P = ParamSpec("P")
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
T = TypeVar("T")


def refuse_on_loop() -> None:
    """Raises `OperationMisused` if an event loop runs in this thread: a call that waits would block it.

    An error and not a warning: a blocked loop looks like a service that hangs, and nothing says why.
    """
    try:
        current_token()
    except RuntimeError:
        return
    raise OperationMisused(
        "a sync engine or client was used on a running event loop, which would stand still until the answer comes: use "
        "WorkflowEngine with 'async with' and 'await', or WorkflowClient (a notebook takes both at the top of a cell), "
        f"or call it in a thread, as with asyncio.to_thread ({caller()})"
    )


@attrs.define(eq=False)
class Line:
    """The way into the loop. `thread` is None while the engine is not open."""

    thread: LoopThread | None = None

    def wait(self, method: Callable[P, Awaitable[A]], /, *args: P.args, **kwargs: P.kwargs) -> A:
        """Call a coroutine function in the loop and wait for its result."""
        refuse_on_loop()
        if self.thread is None:
            raise EngineClosed("the engine is not open")
        return self.thread.call(functools.partial(method, *args, **kwargs))


class OpenLine(Line):
    """The way into the loop of a client, which is opened when it is first used: once in each process."""

    def __init__(self, client: WorkflowClient) -> None:
        super().__init__()
        self._client = client
        # By process: a forked child has no copy of the thread. Changed by atomic operations only, as in `LoopThread`.
        self._threads: dict[int, LoopThread] = {}

    def wait(self, method: Callable[P, Awaitable[A]], /, *args: P.args, **kwargs: P.kwargs) -> A:
        """Call a coroutine function in the loop and wait for its result."""
        refuse_on_loop()
        made = LoopThread(self._client)
        thread = self._threads.setdefault(os.getpid(), made)
        if thread is made:
            # A program may end without closing the client.
            atexit.register(thread.close)
        thread.open()
        return thread.call(functools.partial(method, *args, **kwargs))

    def close(self) -> None:
        """Close the client and end the thread, if it was opened in this process."""
        if (thread := self._threads.pop(os.getpid(), None)) is not None:
            atexit.unregister(thread.close)
            thread.close()


class Streaming(Protocol[A_co]):
    """What `iterating` needs of an async iterator: its next item, None after the last."""

    def next(self) -> Coroutine[Any, Any, A_co | None]: ...


class Blocking(Generic[S_co]):
    """An object of the async API, `source`, for callers that wait."""

    def __init__(self, line: Line, source: S_co) -> None:
        self._line = line
        self._source = source


def blocking(method: Callable[Concatenate[S, P], Coroutine[Any, Any, A]]) -> Callable[Concatenate[Blocking[S], P], A]:
    """The same method of a `Blocking` class: it runs in the loop's thread, and the caller waits for its result."""

    @functools.wraps(method)
    def wait(self: Blocking[S], /, *args: P.args, **kwargs: P.kwargs) -> A:
        return self._line.wait(functools.partial(method, self._source), *args, **kwargs)

    return wait


def returning_handle(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, WorkflowHandle[R]]],
) -> Callable[Concatenate[Blocking[S], P], SyncWorkflowHandle[R]]:
    """Like `blocking`, for a method that returns a handle: here it returns a `SyncWorkflowHandle`."""

    @functools.wraps(method)
    def wait(self: Blocking[S], /, *args: P.args, **kwargs: P.kwargs) -> SyncWorkflowHandle[R]:
        handle = self._line.wait(functools.partial(method, self._source), *args, **kwargs)
        return SyncWorkflowHandle(self._line, handle)

    return wait


class SyncWorkflowHandle(Blocking[WorkflowHandle[R_co]]):
    """A workflow that was started, now or long ago."""

    @property
    def id(self) -> str:
        """The workflow's id."""
        return self._source.id

    # With its parameter, or pyright does not connect the result with that of this class.
    result = blocking(WorkflowHandle[R_co].result)
    status = blocking(WorkflowHandle.status)
    cancel = blocking(WorkflowHandle.cancel)
    progress = blocking(WorkflowHandle.progress)

    @overload
    def watch(self) -> Iterator[WorkflowUpdate[Any]]: ...
    @overload
    def watch(self, type: type[T]) -> Iterator[WorkflowUpdate[T]]: ...
    def watch(self, type: Any = Any) -> Iterator[WorkflowUpdate[Any]]:
        """`for update in handle.watch()`: its status now, then every change, like `WorkflowHandle.watch`."""
        updates = self._source.watch(type)
        return iter(lambda: self._line.wait(updates.next), None)

    def __repr__(self) -> str:
        return repr(self._source)


def iterating(
    method: Callable[Concatenate[S, P], Streaming[A]],
) -> Callable[Concatenate[Blocking[S], P], Iterator[A]]:
    """Like `blocking`, for a method that returns an async iterator: here it returns a plain one."""

    @functools.wraps(method)
    def wait(self: Blocking[S], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[A]:
        items = method(self._source, *args, **kwargs)
        return iter(lambda: self._line.wait(items.next), None)

    return wait


class SyncRuns(Blocking[Runs]):
    """The workflows of an engine; see `WorkflowEngine.runs`."""

    scan = iterating(Runs.scan)
    list = blocking(Runs.list)
    count = blocking(Runs.count)
    history = blocking(Runs.history)
    describe = blocking(Runs.describe)
    retry = returning_handle(Runs.retry)
    fork = returning_handle(Runs.fork)
    repair = blocking(Runs.repair)
    purge = blocking(Runs.purge)


class SyncPauses(Blocking[Pauses]):
    """Questions that workflows have put to people; see `WorkflowEngine.pauses`."""

    list = blocking(Pauses.list)
    resume = blocking(Pauses.resume)
    cancel = blocking(Pauses.cancel)


class SyncEvents(Blocking[Events]):
    """Events that no workflow has taken yet; see `WorkflowEngine.events`."""

    send = blocking(Events.send)
    list = blocking(Events.list)
    remove = blocking(Events.remove)


class SyncDeadLetters(Blocking[DeadLetters]):
    """Events that no workflow took; see `WorkflowEngine.dead_letters`."""

    list = blocking(DeadLetters.list)
    replay = blocking(DeadLetters.replay)
    remove = blocking(DeadLetters.remove)


class SyncSchedules(Blocking[Schedules]):
    """Workflows that are started again and again; see `WorkflowEngine.schedules`."""

    create = blocking(Schedules.create)
    pause = blocking(Schedules.pause)
    resume = blocking(Schedules.resume)
    trigger = returning_handle(Schedules.trigger)
    delete = blocking(Schedules.delete)
    list = blocking(Schedules.list)
