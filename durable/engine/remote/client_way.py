"""How a client asks: through the socket of whoever owns the store, or without an engine from the file.

Follow one question. `ask` looks for the owner's socket in the lock file and connects; later questions share that
connection. When the engine goes away, the connection is lost: then the owner is looked up again, and the question is
repeated under the same request id, until there is an answer or `timeout` is over. If nobody can be asked, a read is
answered from the file. A change is kept for the next engine, if it is a start or an event; any other needs an engine.

Lists are always answered from the file. An engine would read the same rows, and is not slowed by people who look at it.

A connection belongs to one event loop of one process. In another one, and in a forked child, a new one is opened.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import attrs
from anyio.lowlevel import EventLoopToken, current_token

from durable.backends.base import SharedStore
from durable.engine.operations import AwaitChange, AwaitEnd, DescribeWorkflow, Operation, SendEvent, StartWorkflow
from durable.engine.operations.views import Description
from durable.engine.remote import without_engine
from durable.engine.remote.connection import Connection
from durable.engine.remote.wire import READS, name_of
from durable.engine.remote.without_engine import Change, NotYet
from durable.errors import ConnectionLost, EngineNotRunning, EngineUnreachable, StoreInUse
from durable.model.clock import Clock
from durable.model.codec import Codec
from durable.model.registry import Registry
from durable.runner.definitions import WorkflowDef

A = TypeVar("A")
# Seconds until the owner of the store is looked up again.
_PAUSE = 0.05
# Seconds between two looks at a workflow in the file, while no engine runs.
_POLL = 0.25


@attrs.frozen
class _Owned:
    """Instead of an answer: somebody owns the store, and could not be asked."""


def _no_code() -> Registry[WorkflowDef[Any, Any]]:
    return Registry()


@attrs.define(eq=False, kw_only=True)
class ClientWay:
    """The way of a client to the engine of a store. Used in any event loop, by one at a time."""

    store: SharedStore
    codec: Codec
    clock: Clock
    new_id: Callable[[], str]
    # Seconds for connecting and answering.
    timeout: float
    # Whether starts and events are kept while no engine runs.
    keeps: bool
    # No code: results are plain JSON, unless a handle or a ref says more.
    registry: Registry[WorkflowDef[Any, Any]] = attrs.field(factory=_no_code, init=False)
    _connection: Connection | None = attrs.field(default=None, init=False)
    # The process and the loop that the connection belongs to, and the lock under which it is opened there.
    _place: tuple[int, EventLoopToken] | None = attrs.field(default=None, init=False)
    _opening: anyio.Lock = attrs.field(factory=anyio.Lock, init=False)
    # Held while a change is made without an engine: they take turns with the file.
    _changing: anyio.Lock = attrs.field(factory=anyio.Lock, init=False)
    # Why the owner could not be asked the last time.
    _problem: str = attrs.field(default="it has not recorded a socket", init=False)

    def code(self, name: str, version: int) -> None:
        """None: the engine that has the code checks the arguments."""

    def settled(self, operation: SendEvent) -> SendEvent:
        """The same: the engine that has the code settles it."""
        return operation

    async def ask(self, operation: Operation[A]) -> A:
        """Have an operation decided. Raises what the decision raises, `EngineNotRunning` or `EngineUnreachable`."""
        request_id = None if type(operation) in READS else self.new_id()
        with anyio.move_on_after(self.timeout):
            if operation.is_list:
                reply: A = await self._ask_file(operation, None)
                return reply
            return await self._ask(operation, request_id)
        raise EngineUnreachable(self.store.path, self.timeout, self._problem)

    async def ask_end(self, operation: AwaitEnd | AwaitChange) -> Any:
        """Like `ask`, for the two operations whose reply may take months. It outlives any number of engines."""
        while True:
            connection = await self._connected()
            if connection is not None:
                with contextlib.suppress(ConnectionLost):
                    return await connection.ask(operation)
                await anyio.sleep(_PAUSE)
                continue
            reply = await _in_thread(lambda: without_engine.read(self.store, operation, self.clock.now()))
            if not isinstance(reply, NotYet):
                return reply
            await anyio.sleep(_POLL)

    async def describe(self, id: str) -> Description:
        """Describe a workflow. Which of its activities run now, only its engine knows."""
        return await self.ask(DescribeWorkflow(id))

    async def aclose(self) -> None:
        """Close the connection. The next question opens another."""
        connection, self._connection = self._connection, None
        if connection is not None and self._is_here():
            await connection.aclose()
        elif connection is not None:
            connection.drop()

    # --- one question ---------------------------------------------------------------------------------------------

    async def _ask(self, operation: Operation[A], request_id: str | None) -> A:
        """Ask until there is an answer. Every try of a change has the same request id."""
        while True:
            connection = await self._connected()
            if connection is not None:
                try:
                    return await connection.ask(operation, request_id)
                except ConnectionLost as lost:
                    self._problem = lost.problem
            else:
                answer = await self._ask_file(operation, request_id)
                if not isinstance(answer, _Owned):
                    reply: A = answer
                    return reply
            await anyio.sleep(_PAUSE)

    async def _ask_file(self, operation: Operation[Any], request_id: str | None) -> Any:
        """The answer without an engine."""
        if request_id is None:
            return await _in_thread(lambda: without_engine.read(self.store, operation, self.clock.now()))
        async with self._changing:
            change = Change(operation=operation, request_id=request_id, at=self.clock.now())
            return await _in_thread(lambda: self._change_file(change))

    def _change_file(self, change: Change) -> Any:
        """The answer to a change without an engine. In a worker thread."""
        if self.store.is_taken():
            return _Owned()
        if self.keeps and isinstance(change.operation, (StartWorkflow, SendEvent)):
            try:
                return without_engine.keep(self.store, change, self.new_id())
            except StoreInUse:
                return _Owned()
        try:
            # An engine may have decided it, and died before it could answer.
            return without_engine.first_answer(self.store, change)
        except LookupError:
            raise EngineNotRunning(self.store.path, name_of(change.operation)) from None

    # --- the connection -------------------------------------------------------------------------------------------

    def _is_here(self) -> bool:
        """Whether the connection belongs to this process and this loop."""
        return self._place == (os.getpid(), current_token())

    async def _connected(self) -> Connection | None:
        """The connection to the engine that owns the store; None if nobody can be asked now.

        Raises `ProtocolMismatch` if the engine's version is too different.
        """
        if not self._is_here():
            if self._connection is not None:
                self._connection.drop()
            self._connection, self._place = None, (os.getpid(), current_token())
            self._opening, self._changing = anyio.Lock(), anyio.Lock()
        async with self._opening:
            if self._connection is not None and self._connection.is_lost:
                self._connection = None
            if self._connection is None and (path := self.store.control_path()):
                try:
                    self._connection = await Connection.open(path, self.timeout)
                except ConnectionLost as lost:
                    self._problem = lost.problem
                except TimeoutError:
                    self._problem = f"nobody answers at {path!r}"
            return self._connection


async def _in_thread(work: Callable[[], A]) -> A:
    """Do something that waits for the disk. It is finished even if the caller is cancelled."""
    return await anyio.to_thread.run_sync(work)
