"""What the façade and its groups share: the life of an engine, the way in and the way back.

`Core` lives in the event loop and is a state machine. It carries operations to the coordinator's thread and replies
back to their callers; it decides nothing. `TRANSITIONS` is the whole life:

    NEW       Never opened, or the store could not be opened.
    OPENING   The thread is opening the store.
    OPEN      The only stage that accepts calls.
    FAILED    The thread has ended by itself: the store is lost. The caller has not left the `async with` block yet.
    DRAINING  Calls are refused; running activities finish or are cut off.
    STOPPING  The thread was asked to end. It holds the store until it does.
    CLOSED    The thread has ended and the store is free. The engine may be opened again.
    FORKED    This process is a child of the one that opened the engine, and the thread does not exist here. There is no
              transition to it: every stage after the first opening looks like this from another process.

Two sides move the machine. The service opens and closes; the thread reports its end, at any moment. While activities
drain, that report only changes the error that calls raise: the machine moves on when the drain is over.

From OPENING on there is a `Runtime`, a new one for each opening.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from typing import Any, ParamSpec, TypeVar

import anyio
import anyio.abc
import attrs

from durable.backends.base import Backend
from durable.engine.api.control import Control
from durable.engine.config import EngineConfig
from durable.engine.coordinator.coordinator import Release, WorkflowStateCoordinator
from durable.engine.host.activities import ActivityPool
from durable.engine.host.bridge import LoopBridge
from durable.engine.host.reporter import Reporter, capture
from durable.engine.host.runtime import Runtime
from durable.engine.host.watchdog import Watchdog
from durable.engine.host.witness import Witness
from durable.engine.operations import AwaitChange, AwaitEnd, DescribeWorkflow, Operation, SendEvent
from durable.engine.operations.facts import Fact
from durable.engine.operations.observers import Observer
from durable.engine.operations.requests import Repeated, Request
from durable.engine.operations.views import Description
from durable.engine.remote import wire
from durable.engine.remote.receiving import receive_kept, settled
from durable.errors import EngineClosed, EngineForked, InvariantViolated, OperationMisused
from durable.model.clock import SECOND, Clock, from_duration
from durable.model.codec import Codec
from durable.model.ids import check_text
from durable.model.registry import Registry
from durable.runner.definitions import WorkflowDef

# How many seconds a shutdown waits for the observers to see the last facts.
_LAST_WORDS = 2.0
_NOT_BACK = "the coordinator did not come back in time; what was acknowledged is stored, a restart recovers it"
_LOOP_ENDED = "the event loop ended before the engine was shut down; a restart recovers its workflows"
ELSEWHERE = (
    "this engine was opened in another event loop and can only be used there: "
    "call it with anyio.from_thread.run, or use a SyncWorkflowEngine, which takes calls from any thread"
)
OPEN_ALREADY = "this engine is already open: use the one that 'async with' gave you"
P = ParamSpec("P")
A = TypeVar("A")
S = TypeVar("S")


class Stage(Enum):
    """Where an engine is in its life."""

    NEW = "new"
    OPENING = "opening"
    OPEN = "open"
    FAILED = "failed"
    DRAINING = "draining"
    STOPPING = "stopping"
    CLOSED = "closed"
    FORKED = "forked"


TRANSITIONS: dict[Stage, frozenset[Stage]] = {
    Stage.NEW: frozenset({Stage.OPENING}),
    # NEW: the store could not be opened. STOPPING: the task that was opening the engine was cancelled.
    Stage.OPENING: frozenset({Stage.OPEN, Stage.NEW, Stage.STOPPING}),
    Stage.OPEN: frozenset({Stage.DRAINING, Stage.FAILED}),
    Stage.FAILED: frozenset({Stage.DRAINING}),
    Stage.DRAINING: frozenset({Stage.STOPPING}),
    Stage.STOPPING: frozenset({Stage.CLOSED}),
    Stage.CLOSED: frozenset({Stage.OPENING}),
    Stage.FORKED: frozenset(),
}
# Where the machine moves when the thread reports its end. In other stages it stays where it is.
_WHEN_GONE = {Stage.OPENING: Stage.NEW, Stage.OPEN: Stage.FAILED, Stage.STOPPING: Stage.CLOSED}
# Bound once: attribute access on an enum costs a call on 3.11, and every call of the engine compares with it.
_OPEN = Stage.OPEN


@attrs.define(eq=False)
class Core:
    """The life of an engine, and the way to its coordinator. Everything here runs in the event loop that opened it.

    Reports of the thread arrive as callbacks in the same loop, so no state here is shared between threads, and a method
    without `await` sees one stage from beginning to end.
    """

    backend: Backend
    registry: Registry[WorkflowDef[Any, Any]]
    codec: Codec
    config: EngineConfig
    clock: Clock
    new_id: Callable[[], str]
    observers: Sequence[Observer] = ()
    # Whether other processes stand by: then their calls are answered until the drain is over, not until it begins.
    is_shared: bool = False
    _stage: Stage = Stage.NEW
    # The process that opened the engine last, 0 before the first opening.
    _pid: int = 0
    # Why the thread ended by itself, if it did.
    _failure: BaseException | None = None
    # Set from OPENING on.
    _runtime: Runtime = attrs.field(init=False)
    _control: Control = attrs.field(init=False)

    @property
    def stage(self) -> Stage:
        """Where the engine is in its life, as seen from this process."""
        return self._stage if self._pid in (0, os.getpid()) else Stage.FORKED

    def _move(self, stage: Stage) -> None:
        if stage not in TRANSITIONS[self._stage]:
            raise InvariantViolated(f"an engine cannot move from {self._stage.value} to {stage.value}")
        self._stage = stage

    # --- calls ----------------------------------------------------------------------------------------------------

    def check_open(self) -> Runtime:
        """The runtime of the open engine.

        Raises `EngineForked`, `EngineClosed` or the error that made it fail, or `OperationMisused` in another event
        loop.
        """
        if (stage := self.stage) is not _OPEN:
            raise self._refusal(stage)
        if not self._runtime.bridge.is_here():
            raise OperationMisused(ELSEWHERE)
        return self._runtime

    def _refusal(self, stage: Stage) -> BaseException:
        """The error that a call raises in any stage but OPEN."""
        if stage is Stage.FORKED:
            return EngineForked(self._pid)
        if stage in (Stage.NEW, Stage.OPENING):
            return EngineClosed("the engine is not open yet")
        return EngineClosed() if self._failure is None else self._failure.with_traceback(None)

    def _check_serving(self) -> Runtime:
        """The runtime for a caller in another process. It may still be asked while activities drain."""
        return self._runtime if self.stage is Stage.DRAINING else self.check_open()

    def ask(self, operation: Operation[A]) -> Coroutine[Any, Any, A]:
        """Submit an operation and wait for its reply, which comes after the commit.

        At most `max_inbox` callers are past this point; the others wait for a place. Raises what the decision raises,
        and `EngineClosed` or the error that made the engine fail if the thread ends before it replies.
        """
        return self._ask(operation, None, self.check_open)

    async def _ask(self, operation: Operation[A], request: Request | None, check: Callable[[], Runtime]) -> A:
        runtime = check()
        if runtime.reporter.carrier is not None:
            capture(runtime.reporter.carrier, operation)
        room = runtime.room
        try:
            room.acquire_nowait()
        except anyio.WouldBlock:
            await room.acquire()
            is_late = True
        else:
            is_late = False
        try:
            if is_late:
                # While the caller waited, the engine may have been closed, or even opened again.
                runtime = check()
            return await runtime.answer(operation, request)
        finally:
            room.release()

    def ask_end(self, operation: AwaitEnd | AwaitChange) -> Coroutine[Any, Any, Any]:
        """Like `ask`, for the two operations whose reply may take months; they take none of the `max_inbox` places."""
        return self.check_open().answer(operation)

    async def answer(self, operation: Operation[Any], request_id: str | None) -> Any:
        """Like `ask`, for a caller in another process. A change that it repeats under one id is decided once."""
        check, kind = self._check_serving, type(operation)
        if isinstance(operation, (AwaitEnd, AwaitChange)):
            return await check().answer(operation)
        if isinstance(operation, DescribeWorkflow):
            return _while_running(await self._ask(operation, None, check), self._runtime)
        if request_id is None or kind in wire.READS:
            return await self._ask(operation, None, check)
        check_text("request id", request_id)
        request = Request(request_id, functools.partial(wire.write_answer, kind))
        reply = await self._ask(operation, request, check)
        return wire.read_answer(kind, wire.read_text(reply.text)) if isinstance(reply, Repeated) else reply

    def code(self, name: str, version: int) -> WorkflowDef[Any, Any]:
        """The code of a workflow. Raises `UnknownWorkflow`."""
        return self.registry.get(name, version)

    def settled(self, operation: SendEvent) -> SendEvent:
        """An event by name, with the settings of its `Event`. Raises `CodecError`."""
        return settled(operation, self.registry, self.codec)

    async def describe(self, id: str) -> Description:
        """Describe a workflow, and say which of its activities run in this process now."""
        return _while_running(await self.ask(DescribeWorkflow(id)), self._runtime)

    # --- opening --------------------------------------------------------------------------------------------------

    def check_closed(self) -> None:
        """Raises `EngineForked`, or `OperationMisused` if the engine is open: it can be entered only once at a time."""
        if (stage := self.stage) is Stage.FORKED:
            raise self._refusal(stage)
        if Stage.OPENING not in TRANSITIONS[stage]:
            raise OperationMisused(OPEN_ALREADY)

    async def open(self, tasks: anyio.abc.TaskGroup, is_cancelled: Callable[[], bool]) -> None:
        """Start the thread and wait until it has opened the store. Raises a `StorageError`.

        `tasks` runs the activities. `is_cancelled` says whether the loop itself is cancelling them, which is not a
        failure of theirs. If this raises, the stage is NEW again; or STOPPING if it was cancelled while a slow store
        was being opened, until the thread has closed that store.
        """
        runtime, incarnation = _make_runtime(self, self._receive, tasks, is_cancelled), self.new_id()
        self._control = Control(self.answer, self.registry, self.codec, self.config, incarnation)
        self._move(Stage.OPENING)
        self._runtime, self._pid, self._failure = runtime, os.getpid(), None
        try:
            runtime.start_thread(incarnation, self._gone)
        except BaseException as error:
            self._gone(error)
            raise
        # Shielded: once the thread opens the store it must be waited for, or a cancelled start leaves the store locked.
        try:
            with anyio.CancelScope(shield=True):
                await runtime.opened.wait()
        except BaseException:
            # A bare asyncio task.cancel(), as asyncio.timeout makes it, gets through the shield. Wait a moment, so that
            # the next engine finds the store free, unless opening it takes long.
            if self._stage is Stage.OPENING:
                self._stop()
            with anyio.move_on_after(1.0, shield=True):
                await runtime.gone.wait()
            raise
        if self._failure is not None:
            raise self._failure
        # Here and not when the thread reports that the store is open: so no other task can call before this one has
        # submitted `ReadRecovery`.
        self._move(Stage.OPEN)
        runtime.pool.start()

    async def serve(self, tasks: anyio.abc.TaskGroup) -> None:
        """Let other processes ask this engine, if its store is one that they can find. Call it after the recovery."""
        await self._control.start(tasks, self.backend)

    # --- what the thread reports, in the loop ---------------------------------------------------------------------

    def _receive(self, release: Release) -> None:
        """Hand out what one commit has released: activities to the pool, replies to their callers."""
        runtime = self._runtime
        if release.is_last:
            release.answered += runtime.coordinator.refuse_rest(release.end)
        if release.activities:
            runtime.pool.apply(release.activities)
        for envelope in release.answered:
            envelope.wake()
        if release.is_last:
            self._gone(release.end)

    def _gone(self, failure: BaseException | None) -> None:
        """The thread has ended, or could not start. `failure` is None if it was asked to end."""
        runtime = self._runtime
        runtime.bridge.close()
        self._failure = failure
        # Before any caller wakes up: clients hear that the engine has ended, and look for the next owner of the store.
        self._control.end()
        if (stage := _WHEN_GONE.get(self._stage)) is not None:
            self._move(stage)
        runtime.opened.set()
        runtime.gone.set()

    # --- closing --------------------------------------------------------------------------------------------------

    async def close(self, drain: float | None = None) -> None:
        """Accept no more calls, let activities finish for `drain` seconds, end the thread. Harmless when repeated.

        It returns even if the thread does not end in time, as when a disk hangs or a body never returns. Then the stage
        stays STOPPING, and the engine cannot be opened again before the thread has ended.
        """
        if (stage := self.stage) not in (Stage.OPEN, Stage.FAILED):
            return
        runtime = self._runtime
        seconds = drain_seconds(self.config, None) if drain is None else drain
        self._move(Stage.DRAINING)
        with anyio.CancelScope(shield=True):
            try:
                if not self.is_shared:
                    await self._control.stop()
                # When the store is lost, no result can be recorded: there is nothing to wait for.
                await runtime.pool.drain(0.0 if stage is Stage.FAILED else seconds)
                await self._control.stop()
            finally:
                # In `finally` because asyncio's own cancel() gets through the shield, and the thread holds the store
                # until it is asked to end.
                self._stop()
            with anyio.move_on_after(max(seconds, 1.0) + _LAST_WORDS):
                await runtime.gone.wait()
        if not runtime.gone.is_set():
            runtime.reporter.tell_last(logging.ERROR, _NOT_BACK)

    def _stop(self) -> None:
        """Ask the thread to end, unless it has ended."""
        self._move(Stage.STOPPING)
        if self._runtime.gone.is_set():
            self._move(Stage.CLOSED)
        else:
            self._runtime.coordinator.stop()

    def hurry(self) -> None:
        """Cut the drain short, or the one to come: the task that closes the engine was cancelled."""
        if self._stage in (Stage.OPEN, Stage.DRAINING):
            self._runtime.pool.hurry()

    def tell(self, *facts: Fact) -> None:
        """Tell the observers of the open engine."""
        self._runtime.reporter.tell(*facts)


def drain_seconds(config: EngineConfig, drain: object) -> float:
    """How long a shutdown waits: `drain` as the caller passed it, or what the configuration says."""
    label, duration = ("drain", config.drain) if drain is None else ("shutdown: drain", drain)
    return from_duration(label, duration) / SECOND


def _while_running(description: Description, runtime: Runtime) -> Description:
    running = runtime.pool.running_positions(description.key, description.round)
    return description.while_running(running) if running else description


def _make_runtime(
    core: Core, receive: Callable[[Release], None], tasks: anyio.abc.TaskGroup, is_cancelled: Callable[[], bool]
) -> Runtime:
    """The parts of one opening: the thread and its bridge, observers, activities. `receive` gets each release."""
    bridge = LoopBridge()
    reporter = Reporter(core.observers, core.clock, log=core.config.log)
    tell = reporter.tell
    coordinator = WorkflowStateCoordinator(
        core.backend,
        core.registry,
        codec=core.codec,
        config=core.config,
        clock=core.clock,
        release=functools.partial(_release, bridge, reporter, receive),
        receive=functools.partial(receive_kept, registry=core.registry, codec=core.codec),
        tell=tell,
        is_observed=reporter.is_observed,
    )
    return Runtime(
        coordinator=coordinator,
        bridge=bridge,
        reporter=reporter,
        pool=ActivityPool(
            tasks,
            coordinator.submit,
            core.codec,
            core.config,
            waiter=bridge.waiter,
            is_cancelled=is_cancelled,
            clock=core.clock,
            tell=tell,
            witness=Witness(reporter, core.clock) if reporter.is_observed else None,
        ),
        watchdog=Watchdog(core.clock, core.config, tell),
        room=anyio.Semaphore(core.config.max_inbox, fast_acquire=True),
    )


def _release(bridge: LoopBridge, reporter: Reporter, receive: Callable[[Release], None], release: Release) -> None:
    """Post what leaves after a commit into the loop. Called in the coordinator's thread."""
    if release.is_last:
        # Here, because this thread has nothing else to do, and an observer must not hold up the loop.
        reporter.close(_LAST_WORDS)
    if not bridge.post(receive, release):
        reporter.tell_last(logging.WARNING, _LOOP_ENDED)
