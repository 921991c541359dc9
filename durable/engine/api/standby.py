"""`Standby`: the way of an engine that shares its store file with other processes of its service.

One process owns the file. The others follow it: they ask it over its socket, and keep one connection open, which is
also the bell. When the owner ends, in whatever way, the kernel closes the connection, and every follower tries to take
the store. The lock of the store decides; whoever is refused follows the next owner. Nobody polls while all is well,
except for one look at the lock each second, in case that the bell is never heard.

Follow a call. While this process owns the store, it goes to the coordinator like any call. Otherwise it goes to the
owner, under a request id. If that connection is lost, the call waits for news: another owner, this process among them.
Then it is repeated under the same id, so it takes effect once and gets the first answer.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import anyio
import anyio.abc
import attrs
from anyio.lowlevel import EventLoopToken, current_token

from durable.backends.base import SharedStore
from durable.engine.api.core import ELSEWHERE, Core, Stage
from durable.engine.operations import AwaitChange, AwaitEnd, DescribeWorkflow, Operation, SendEvent
from durable.engine.operations.views import Description
from durable.engine.remote.connection import Connection
from durable.engine.remote.receiving import receive
from durable.engine.remote.wire import READS, write_operation
from durable.errors import (
    ConnectionLost,
    DurableError,
    EngineClosed,
    EngineForked,
    EngineUnreachable,
    OperationMisused,
    StorageError,
    StoreInUse,
)
from durable.model.clock import Clock
from durable.model.codec import Codec
from durable.model.registry import Registry
from durable.runner.definitions import WorkflowDef

_log = logging.getLogger("durable")
A = TypeVar("A")
# Seconds that a call waits for an answer, as in a client.
TIMEOUT = 30.0
# Seconds between two looks for the next owner, from the end of one until the other can be asked.
_PAUSE = 0.02
# Seconds between two looks at the lock while the owner can be asked.
_LOOK = 1.0
# Seconds until the next try, if this process could not take a store that was free.
_RETRY = 1.0


class _Asked(Protocol):
    """Whoever answers: a connection to the owner, or the engine of this process."""

    async def ask(self, operation: Operation[A], request_id: str | None = None) -> A: ...


@attrs.frozen
class _Here:
    """The engine of this process, asked like any other: a request that another owner has decided is not repeated."""

    core: Core

    async def ask(self, operation: Operation[A], request_id: str | None = None) -> A:
        """Have an operation decided here. Raises what the decision raises."""
        self.core.check_open()
        received = receive(write_operation(operation), self.core.registry, self.core.codec)
        answer: A = await self.core.answer(received, request_id)
        return answer


@attrs.define(eq=False)
class Standby:
    """The way to the owner of a shared store, whoever it is. `own` opens the engine of this process.

    It raises `StoreInUse` if another process is faster.
    """

    store: SharedStore
    core: Core
    own: Callable[[], Awaitable[None]]
    codec: Codec = attrs.field(default=attrs.Factory(lambda self: self.core.codec, takes_self=True), init=False)
    # The code of this process: it decodes results.
    registry: Registry[WorkflowDef[Any, Any]] = attrs.field(
        default=attrs.Factory(lambda self: self.core.registry, takes_self=True), init=False
    )
    clock: Clock = attrs.field(default=attrs.Factory(lambda self: self.core.clock, takes_self=True), init=False)
    new_id: Callable[[], str] = attrs.field(
        default=attrs.Factory(lambda self: self.core.new_id, takes_self=True), init=False
    )
    # Whether the engine was opened while another process owned the store, and does not own it yet.
    _follows: bool = attrs.field(default=False, init=False)
    # Whether the engine has been shut down here while it was a follower.
    _has_left: bool = attrs.field(default=False, init=False)
    # The process and the loop in which it was opened.
    _place: tuple[int, EventLoopToken] | None = attrs.field(default=None, init=False)
    _connection: Connection | None = attrs.field(default=None, init=False)
    # Set, and replaced, when there is somebody else to ask, or nobody any more.
    _news: anyio.Event = attrs.field(factory=anyio.Event, init=False)
    # The task that follows: its scope, and what is set at its end.
    _task: tuple[anyio.CancelScope, anyio.Event] | None = attrs.field(default=None, init=False)
    # Why nobody could be asked the last time.
    _problem: str = attrs.field(default="it has not recorded a socket yet", init=False)

    # --- what calls need ------------------------------------------------------------------------------------------

    def code(self, name: str, version: int) -> WorkflowDef[Any, Any] | None:
        """The code here if this process owns the store, else None: the owner's code checks the arguments."""
        return None if self.is_following() else self.core.code(name, version)

    def settled(self, operation: SendEvent) -> SendEvent:
        """An event by name, with the settings of its `Event` if this process owns the store. Raises `CodecError`."""
        return operation if self.is_following() else self.core.settled(operation)

    async def ask(self, operation: Operation[A]) -> A:
        """Have an operation decided. Raises what the decision raises, or `EngineUnreachable`."""
        self.check_open()
        if not self.is_following():
            return await self.core.ask(operation)
        request_id = None if type(operation) in READS else self.new_id()
        with anyio.move_on_after(TIMEOUT):
            return await self._ask(operation, request_id)
        raise EngineUnreachable(self.store.path, TIMEOUT, self._problem)

    async def ask_end(self, operation: AwaitEnd | AwaitChange) -> Any:
        """Like `ask`, for the two operations whose reply may take months. It outlives any number of owners."""
        self.check_open()
        return await (self._ask(operation, None) if self.is_following() else self.core.ask_end(operation))

    async def describe(self, id: str) -> Description:
        """Describe a workflow, and say which of its activities its owner runs now."""
        self.check_open()
        return await (self.ask(DescribeWorkflow(id)) if self.is_following() else self.core.describe(id))

    async def _ask(self, operation: Operation[A], request_id: str | None) -> A:
        """Ask one owner after the other until there is an answer."""
        while True:
            asked = await self._asked()
            try:
                return await asked.ask(operation, request_id)
            except ConnectionLost as lost:
                self._problem = lost.problem

    async def _asked(self) -> _Asked:
        """Whoever owns the store now. Waits while nobody can be asked."""
        while True:
            self.check_open()
            if not self.is_following():
                return _Here(self.core)
            if self._connection is not None and not self._connection.is_lost:
                return self._connection
            await self._news.wait()

    def is_following(self) -> bool:
        """Whether another process owns the store, as far as this one knows."""
        return self._follows and self.core.stage is not Stage.OPEN

    def check_open(self) -> None:
        """Raises what `Core.check_open` raises, for a follower too."""
        if self._place is not None and self._place[0] != os.getpid():
            raise EngineForked(self._place[0])
        if self._has_left:
            raise EngineClosed
        if not self.is_following():
            self.core.check_open()
        elif self._place is None or self._place[1] != current_token():
            raise OperationMisused(ELSEWHERE)

    # --- the life of a follower -----------------------------------------------------------------------------------

    async def open(self, tasks: anyio.abc.TaskGroup) -> None:
        """Own the store, or follow its owner in a task of the group. Raises a `StorageError`.

        It waits until the owner can be asked, but not longer than a call would.
        """
        self._place, self._has_left, self._news = (os.getpid(), current_token()), False, anyio.Event()
        try:
            await self.own()
        except StoreInUse as refusal:
            holder = refusal.holder
        else:
            return
        until = anyio.current_time() + TIMEOUT
        while not await self._connect():
            if not self.store.is_taken():
                with contextlib.suppress(StoreInUse):
                    await self.own()
                    return
            elif self.store.control_path() == "":
                raise StoreInUse(self.store.path, f"{holder}, which takes no calls of other processes")
            if anyio.current_time() > until:
                _log.warning("the engine that owns %s cannot be asked yet: %s", self.store.path, self._problem)
                break
            await anyio.sleep(_PAUSE)
        self._follows, self._task = True, (anyio.CancelScope(), anyio.Event())
        _log.info("%s is owned by %s; this process stands by", self.store.path, holder)
        tasks.start_soon(self._run, *self._task)

    async def _run(self, scope: anyio.CancelScope, ended: anyio.Event) -> None:
        """Follow one owner after the other, until this process is the owner."""
        try:
            with scope:
                await self._follow()
                while not await self._take_over():
                    await self._follow()
        finally:
            ended.set()

    async def _follow(self) -> None:
        """Keep a connection to the owner; return when nobody owns the store."""
        while self.store.is_taken():
            if await self._connect() and self._connection is not None:
                with anyio.move_on_after(_LOOK):
                    await self._connection.until_lost()
            else:
                await anyio.sleep(_PAUSE)

    async def _connect(self) -> bool:
        """Whether the owner can be asked. Connects if that is new."""
        if self._connection is not None and not self._connection.is_lost:
            return True
        if not (path := self.store.control_path()):
            return False
        try:
            self._connection = await Connection.open(path, TIMEOUT)
        except (DurableError, TimeoutError) as error:
            self._problem = str(error)
            return False
        self._tell()
        return True

    async def _take_over(self) -> bool:
        """Try to own the store. Another process may be faster, or the store may be broken for this one."""
        try:
            await self.own()
        except StoreInUse:
            return False
        except StorageError as error:
            if (problem := f"this process cannot take it over: {error}") != self._problem:
                _log.error("%s has no owner: %s", self.store.path, problem)
            self._problem = problem
            await self.core.close(0.0)
            await anyio.sleep(_RETRY)
            return False
        self._follows = False
        _log.info("this process owns %s now", self.store.path)
        await self._hang_up()
        return True

    async def close(self, drain: float | None = None) -> None:
        """Stop following, or shut the engine down like `Core.close`. Harmless when repeated."""
        if self._place is None or self._place[0] != os.getpid():
            return
        try:
            with anyio.CancelScope(shield=True):
                if self._task is not None:
                    scope, ended = self._task
                    scope.cancel()
                    await ended.wait()
                # Also when it is closed twice.
                self._has_left, self._follows = self._has_left or self.is_following(), False
                await self._hang_up()
        finally:
            # In `finally` because asyncio's own cancel() gets through the shield.
            await self.core.close(drain)

    async def _hang_up(self) -> None:
        """Close the connection to the last owner, and have its callers ask the next one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()
