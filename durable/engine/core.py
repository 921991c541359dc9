"""What the façade and its groups share: the coordinator's thread, the way in and the way back.

Lives on the loop. It carries operations to the coordinator and answers back to their callers, and starts and stops the
thread; it decides nothing.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

import anyio
import anyio.abc
import attrs

from durable.backends.base import Backend
from durable.clock import SECOND, Clock, from_duration
from durable.codec import Codec
from durable.engine.activities import ActivityPool
from durable.engine.bridge import LoopBridge
from durable.engine.config import EngineConfig
from durable.engine.coordinator import Release, WorkflowStateCoordinator
from durable.engine.inbox import Envelope
from durable.engine.operations import AwaitChange, AwaitEnd, Operation, RunActivity, StopActivity
from durable.engine.watchdog import Watchdog
from durable.errors import EngineClosed, EngineForked, OperationMisused
from durable.registry import Registry
from durable.runner.definitions import WorkflowDef
from durable.runner.ops import STEPPING, caller

_log = logging.getLogger("durable")
OPEN_ALREADY = "this engine is open already: use the one that 'async with' gave you"
P = ParamSpec("P")
A = TypeVar("A")
S = TypeVar("S")


def service_call(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, A]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, A]]:
    """Guard a method of the engine: inside a workflow body it says what to write instead."""

    @functools.wraps(method)
    def guarded(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, A]:
        if STEPPING.get() is not None:
            refuse_in_body(method.__qualname__)
        return method(self, *args, **kwargs)

    return guarded


def refuse_in_body(name: str) -> None:
    """Raises `OperationMisused` if a workflow body is running: it has called what only a service may call."""
    if STEPPING.get() is not None:
        raise OperationMisused(
            f"{name}() was called inside a workflow body, which must not talk to the engine: "
            f"yield a workflow call for a child, or do it in an activity ({caller()})"
        )


@attrs.define(eq=False)
class Core:
    """The running half of an engine."""

    backend: Backend
    registry: Registry[WorkflowDef[Any, Any]]
    codec: Codec
    config: EngineConfig
    clock: Clock
    new_id: Callable[[], str]
    _pid: int = 0
    _coordinator: WorkflowStateCoordinator | None = None
    _pool: ActivityPool | None = None
    _bridge: LoopBridge | None = None
    _room: anyio.Semaphore | None = None
    _closed: BaseException = attrs.field(factory=lambda: EngineClosed("the engine is not open yet"))
    _is_open: bool = False
    # From the moment it is being opened until its thread has gone.
    _is_taken: bool = False
    _opened: anyio.Event | None = None
    _gone: anyio.Event | None = None
    _is_over: bool = False
    # The pool of an engine that is being closed, and whether its activities get no more time.
    _draining: ActivityPool | None = None
    _is_hurried: bool = False
    _activities: list[RunActivity | StopActivity] = attrs.field(factory=list)
    _arrived: anyio.Event | None = None
    _failure: BaseException | None = None

    def check_closed(self) -> None:
        """Raises `OperationMisused` if the engine is open: it can be entered only once at a time; or `EngineForked`."""
        if self.is_forked():
            raise EngineForked(self._pid)
        if self._is_taken:
            raise OperationMisused(OPEN_ALREADY)

    def is_forked(self) -> bool:
        """Whether this is a child of the process that has opened the engine: its thread does not exist here."""
        return self._pid != 0 and self._pid != os.getpid()

    async def open(self, tasks: anyio.abc.TaskGroup, is_cancelled: Callable[[], bool]) -> None:
        """Start the thread and have it take the store. Raises a `StorageError`."""
        await self._open()
        self._is_open = True
        assert self._coordinator is not None
        assert self._bridge is not None
        submit, waiter = self._coordinator.submit, self._bridge.waiter
        self._pool = ActivityPool(tasks, submit, self.codec, self.config, waiter=waiter, is_cancelled=is_cancelled)
        tasks.start_soon(self._start_activities, self._pool)

    async def _open(self) -> None:
        bridge = self._bridge = LoopBridge()
        self._opened, self._gone, self._arrived = anyio.Event(), anyio.Event(), anyio.Event()
        self._is_over = self._is_hurried = False
        self._activities, self._draining = [], None
        self._coordinator = WorkflowStateCoordinator(
            self.backend,
            self.registry,
            codec=self.codec,
            config=self.config,
            clock=self.clock,
            release=lambda release: _warn_if_lost(bridge.post(self._receive, release)),
        )
        self._room = anyio.Semaphore(self.config.max_inbox, fast_acquire=True)
        self._pid = os.getpid()
        self._failure = None
        thread = threading.Thread(
            target=self._run_thread, args=(self._coordinator, bridge), name="durable-coordinator", daemon=True
        )
        thread.start()
        self._is_taken = True
        # Once the thread works on the store it must be waited for, or a cancelled start leaves the store locked.
        try:
            with anyio.CancelScope(shield=True):
                await self._opened.wait()
        except BaseException:
            # A bare asyncio task.cancel(), as of asyncio.timeout, gets through the shield. Whoever opens the store next
            # should find it free, unless opening it takes long.
            self._coordinator.stop()
            with anyio.move_on_after(1.0, shield=True):
                await self._gone.wait()
            raise
        if self._failure is not None:
            raise self._failure

    async def ask(self, operation: Operation[A]) -> A:
        """Have an operation done; the answer comes after its commit."""
        self.check_open()
        room = self._room
        assert room is not None
        # Bounds what is queued: a caller that finds no room waits here.
        has_waited = False
        try:
            room.acquire_nowait()
        except anyio.WouldBlock:
            await room.acquire()
            has_waited = True
        try:
            if has_waited:
                # It may have been closed meanwhile.
                self.check_open()
            return await self._answer(operation)
        finally:
            room.release()

    def ask_end(self, operation: AwaitEnd | AwaitChange) -> Coroutine[Any, Any, Any]:
        """Like `ask`, for the two questions whose answer may take months; they take no room in the queue."""
        self.check_open()
        return self._answer(operation)

    def running_positions(self, key: int, round: int) -> frozenset[str]:
        """Where activities of a workflow run in this process now."""
        return frozenset() if self._pool is None else self._pool.running_positions(key, round)

    async def close(self, drain: float | None = None) -> None:
        """Take no more work, let activities finish, leave. Harmless when repeated."""
        pool, self._pool = self._pool, None
        if pool is None or self.is_forked():
            return
        self._is_open = False
        seconds = self.drain_seconds(None) if drain is None else drain
        assert self._coordinator is not None
        assert self._gone is not None
        self._draining = pool
        with anyio.CancelScope(shield=True):
            if self._is_over:
                # The store is lost: no answer can be recorded any more.
                await pool.drain(0.0)
                return
            self._closed = EngineClosed()
            try:
                await pool.drain(0.0 if self._is_hurried else seconds)
            finally:
                # Also when asyncio's own cancel() gets through the shield: the thread holds the store until it is told.
                self._coordinator.stop()
            with anyio.move_on_after(max(seconds, 1.0)):
                await self._gone.wait()
        if not self._gone.is_set():
            # Nothing more is taken from it, or the task group would wait for it without end.
            self._is_over = True
            if self._arrived is not None:
                self._arrived.set()
            _log.error("the coordinator did not come back in time; what was acknowledged is stored, a restart recovers")

    def hurry(self) -> None:
        """Let running activities have no more time: whoever closes the engine is in a hurry."""
        self._is_hurried = True
        if self._draining is not None:
            self._draining.hurry()

    def check_open(self) -> None:
        """Raises `EngineForked`, `EngineClosed`, or `OperationMisused` in a loop that is not the engine's."""
        if self.is_forked():
            raise EngineForked(self._pid)
        if not self._is_open:
            raise self._closed
        assert self._bridge is not None
        if not self._bridge.is_here():
            raise OperationMisused(
                "this engine was opened in another event loop and can only be used there: "
                "go there with anyio.from_thread.run, or use a SyncWorkflowEngine, which takes calls from any thread"
            )

    async def _answer(self, operation: Operation[A]) -> A:
        assert self._coordinator is not None
        assert self._bridge is not None
        arrived, wake = self._bridge.waiter()
        envelope = Envelope(operation, wake)
        self._coordinator.submit(envelope)
        try:
            await arrived
        except BaseException:
            envelope.is_abandoned = True
            raise
        if envelope.error is not None:
            raise envelope.error.with_traceback(None)
        answer: A = envelope.reply
        return answer

    def _receive(self, release: Release) -> None:
        """In the loop: hand out what one commit has released."""
        if release.is_last:
            self._is_open, self._is_over, self._is_taken = False, True, False
            self._closed = release.end or self._closed
            assert self._coordinator is not None
            assert self._bridge is not None
            release.answered += self._coordinator.refuse_rest(release.end)
            self._bridge.close()
        if release.activities:
            if self._pool is not None and not self._activities and self._pool.has_worker():
                self._pool.apply(release.activities)
            else:
                # Begun by a task: a bare callback of the loop must not start one.
                self._activities += release.activities
        for envelope in release.answered:
            envelope.wake()
        if (self._activities or release.is_last) and self._arrived is not None:
            self._arrived.set()
        if release.is_last and self._gone is not None:
            self._gone.set()

    async def _start_activities(self, pool: ActivityPool) -> None:
        """Begin what needs a worker that is not there yet."""
        while self._activities or not self._is_over:
            if not self._activities and self._arrived is not None:
                await self._arrived.wait()
                self._arrived = anyio.Event()
            arrived, self._activities = self._activities, []
            pool.apply(arrived)

    # --- in the coordinator's thread ------------------------------------------------------------------------------

    def _run_thread(self, coordinator: WorkflowStateCoordinator, bridge: LoopBridge) -> None:
        try:
            coordinator.open(self.new_id())
        except BaseException as error:
            # A backend that failed to open has cleaned up after itself, and one that is in use belongs to another.
            bridge.post(self._set_opened, error)
            return
        watchdog = Watchdog(self.clock, self.config)
        coordinator.state.watch = watchdog
        try:
            watchdog.start()
        except BaseException as error:
            # No more threads, say. Somebody waits for this answer in any case.
            self.backend.close()
            bridge.post(self._set_opened, error)
            return
        bridge.post(self._set_opened, None)
        try:
            coordinator.run()
        finally:
            watchdog.stop()

    def _set_opened(self, failure: BaseException | None) -> None:
        self._failure = failure
        assert self._opened is not None
        assert self._bridge is not None
        if failure is not None:
            self._is_taken = False
            self._bridge.close()
            if self._gone is not None:
                self._gone.set()
        self._opened.set()

    def drain_seconds(self, drain: object) -> float:
        """How long a shutdown waits."""
        what, duration = ("drain", self.config.drain) if drain is None else ("shutdown: drain", drain)
        return from_duration(what, duration) / SECOND


def _warn_if_lost(arrived: bool) -> None:
    if not arrived:
        _log.warning("the event loop has ended before the engine was shut down; a restart recovers")
