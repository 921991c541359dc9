"""Runs activities: `async def` on the host's event loop, `def` in worker threads.

Lives on the loop and owns no state of any workflow. It takes effects from the coordinator and gives back
`RecordActivity` operations; whether an answer is still wanted is the coordinator's business.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread
import attrs

from durable.clock import SECOND
from durable.codec import Codec, payload_size
from durable.engine.bridge import Waiter
from durable.engine.config import EngineConfig
from durable.engine.operations import RecordActivity, RunActivity, StopActivity
from durable.errors import ActivityFailed, ActivityTimedOut, OperationMisused, PayloadTooLarge
from durable.ids import place
from durable.outcomes import pack_error
from durable.runner.ops import IN_ACTIVITY

# How many activities a worker runs before it lets the rest of the loop have a turn, and how many workers are kept.
_POLITE = 50
_IDLE_MAX = 100


@attrs.frozen(kw_only=True)
class ActivityInfo:
    """Who runs this activity. `idempotency_key` is the same for every attempt, whatever crashes in between."""

    workflow_id: str
    position: str
    attempt: int
    idempotency_key: str


def activity_info() -> ActivityInfo:
    """Who runs the activity that calls this. Raises `OperationMisused` outside an activity."""
    effect = IN_ACTIVITY.get()
    if effect is None:
        raise OperationMisused("activity_info() works only inside an activity")
    return ActivityInfo(
        workflow_id=effect.workflow_id,
        position=effect.position,
        attempt=effect.attempt,
        idempotency_key=f"{effect.workflow_id}/{place(effect.round, effect.position)}",
    )


_Name = tuple[int, int, str]


class Worker:
    """A task that runs activities one after the other, under one cancel scope."""

    # Ends its rest.
    wake: Callable[[], None]

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()


class ActivityPool:
    """Runs a bounded number of activities at once; the others wait their turn.

    A task costs more than a short activity, so a worker goes on with the next activity when one has ended without
    waiting. As soon as one does wait, the worker that was woken behind it takes over: there are as many workers as
    activities that wait for something, and one more.
    """

    def __init__(
        self,
        tasks: anyio.abc.TaskGroup,
        report: Callable[[RecordActivity], None],
        codec: Codec,
        config: EngineConfig,
        *,
        waiter: Callable[[], Waiter],
    ) -> None:
        self._tasks = tasks
        self._waiter = waiter
        self._report = report
        self._codec = codec
        self._limit = config.max_running_activities
        self._max_payload = config.max_payload_bytes
        # Held while somebody waits for the thread. A thread that nobody waits for any more cannot be stopped, but it
        # must not take the place of those that are waited for; hence the second, unlimited one for the hand-over.
        self._threads = anyio.CapacityLimiter(config.max_threads)
        self._unlimited = anyio.CapacityLimiter(math.inf)
        self._waiting: deque[RunActivity] = deque()
        self._running: dict[_Name, anyio.CancelScope] = {}
        # Scopes that were cancelled because nobody wants the answer; the others that are cut off have timed out. By
        # scope and not by name: an activity that is slow to stop may have a successor of the same name.
        self._unwanted: set[anyio.CancelScope] = set()
        # Workers start in this context and not in that of a worker which has just ended.
        self._context = copy_context()
        self._idle: list[Worker] = []
        self._workers = 0
        # Whether a worker was started or woken that has not taken anything yet.
        self._is_called = False
        self._is_draining = False
        self._all_gone = anyio.Event()

    def has_worker(self) -> bool:
        """Whether a worker is free or on its way, so that `apply` need not start a task."""
        return self._is_called or bool(self._idle)

    def apply(self, effects: list[RunActivity | StopActivity]) -> None:
        """Take what the coordinator has released."""
        stopped: set[_Name] = set()
        for effect in effects:
            name = (effect.key, effect.round, effect.position)
            if isinstance(effect, RunActivity):
                if name in stopped:
                    self._forget(stopped)
                self._waiting.append(effect)
                continue
            if name in self._running:
                self._cancel(name)
            # Also when one of this name runs: that may be a predecessor, and what is to be stopped still waits.
            stopped.add(name)
        if stopped:
            self._forget(stopped)
        self._call_worker()

    async def drain(self, seconds: float) -> None:
        """Begin nothing new, let what runs finish for a while, then cancel it. What was cut off runs again later."""
        self._is_draining = True
        self._waiting.clear()
        for worker in self._idle:
            worker.wake()
        for patience in (seconds, 1.0):
            if self._workers:
                with anyio.move_on_after(patience):
                    await self._all_gone.wait()
            for name in list(self._running):
                self._cancel(name)

    def _call_worker(self) -> None:
        """Have one more worker look at what waits, unless one is on its way."""
        if self._is_called or self._is_draining or not self._waiting:
            return
        if self._idle:
            self._is_called = True
            self._idle.pop().wake()
        elif self._workers < self._limit:
            self._is_called = True
            self._context.run(self._start_worker)

    def _start_worker(self) -> None:
        self._tasks.start_soon(self._work)

    def _forget(self, names: set[_Name]) -> None:
        """Take what is to be stopped out of the queue; all at once, or a great gather that fails holds up the loop."""
        self._waiting = deque(one for one in self._waiting if (one.key, one.round, one.position) not in names)
        names.clear()

    def _cancel(self, name: _Name) -> None:
        scope = self._running[name]
        self._unwanted.add(scope)
        scope.cancel()

    async def _work(self) -> None:
        # Counted only now: a task that is cancelled before it begins never runs, and nobody must wait for it.
        self._workers += 1
        worker = Worker()
        self._is_called = False
        try:
            with worker.scope:
                while await self._run_all(worker) and await self._rest(worker):
                    pass
        finally:
            self._workers -= 1
            if self._is_draining and not self._workers:
                self._all_gone.set()
            self._call_worker()

    async def _run_all(self, worker: Worker) -> bool:
        """Run what waits until nothing does; whether the worker can be used again."""
        for count in itertools.count(1):
            if self._is_draining or not self._waiting:
                break
            effect = self._waiting.popleft()
            if not self._is_called:
                self._call_worker()
            if not await self._run(worker, effect):
                return False
            if count % _POLITE == 0:
                # Short activities in a row must not keep the host's other tasks waiting.
                await anyio.lowlevel.cancel_shielded_checkpoint()
        return not self._is_draining

    async def _rest(self, worker: Worker) -> bool:
        """Wait to be called again; False if there are enough idle workers already."""
        if len(self._idle) >= _IDLE_MAX:
            return False
        called, worker.wake = self._waiter()
        self._idle.append(worker)
        await called
        self._is_called = False
        return True

    async def _run(self, worker: Worker, effect: RunActivity) -> bool:
        """Run one activity and report it; whether the worker can be used again."""
        name = (effect.key, effect.round, effect.position)
        timeout = effect.definition.timeout_us
        scope = worker.scope if timeout is None else anyio.CancelScope()
        context = copy_context()
        token = IN_ACTIVITY.set(effect)
        self._running[name] = scope
        answer: RecordActivity | None = None
        is_wanted = True
        try:
            if timeout is None:
                answer = await self._attempt(effect, scope)
            else:
                with scope:
                    answer = await self._attempt(effect, scope)
        finally:
            IN_ACTIVITY.reset(token)
            if self._running.get(name) is scope:
                del self._running[name]
            if scope in self._unwanted:
                is_wanted = False
                self._unwanted.discard(scope)
        if is_wanted:
            if answer is None and timeout is not None:
                answer = self._failed(effect, ActivityTimedOut(effect.definition.name, timeout / SECOND))
            if answer is not None:
                self._report(answer)
        # A cancellation that came too late for this activity must not hit the next one, and context variables that it
        # has set must not reach the next one: such a worker is not used again.
        return not worker.scope.cancel_called and _is_same(copy_context(), context)

    async def _attempt(self, effect: RunActivity, scope: anyio.CancelScope) -> RecordActivity:
        definition = effect.definition
        try:
            if definition.is_async:
                if definition.timeout_us is not None:
                    _set_deadline(effect, scope)
                value = await definition.fn(*effect.args, **effect.kwargs)
            else:
                value = await self._in_thread(effect, scope)
            text, value = definition.coder(self._codec).result.pack(value)
            if (size := payload_size(text)) > self._max_payload:
                raise PayloadTooLarge(f"{definition.label}: result", size, self._max_payload)
        except anyio.get_cancelled_exc_class() as error:
            # Really cancelled, or an activity that lets a CancelledError of its own making escape?
            await anyio.lowlevel.checkpoint_if_cancelled()
            return self._failed(effect, error)
        except KeyboardInterrupt:
            # On the loop this is the person at the keyboard, not the activity.
            raise
        except BaseException as error:
            return self._failed(effect, error)
        return RecordActivity(
            effect.key, effect.round, effect.position, effect.attempt, text, value, mends=effect.mends
        )

    async def _in_thread(self, effect: RunActivity, scope: anyio.CancelScope) -> Any:
        def call() -> Any:
            try:
                return effect.definition.fn(*effect.args, **effect.kwargs)
            except (KeyboardInterrupt, GeneratorExit) as error:
                # No signal arrives in a worker thread, so the activity itself has raised it. A GeneratorExit that
                # was carried into the loop would close the task that waits for it.
                raise ActivityFailed(f"builtins.{type(error).__name__}", str(error)) from error

        async with self._threads:
            # Not before: an attempt that waits for a thread has not begun.
            _set_deadline(effect, scope)
            return await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._unlimited)

    def _failed(self, effect: RunActivity, error: BaseException) -> RecordActivity:
        key, round, position, attempt = effect.key, effect.round, effect.position, effect.attempt
        return RecordActivity(key, round, position, attempt, pack_error(error), error=error, mends=effect.mends)


def _set_deadline(effect: RunActivity, scope: anyio.CancelScope) -> None:
    if effect.definition.timeout_us is not None:
        scope.deadline = anyio.current_time() + effect.definition.timeout_us / SECOND


def _is_same(one: Context, other: Context) -> bool:
    """Whether two contexts hold the same objects. Not `==`, which asks the values, and they may be anything."""
    if len(one) != len(other):
        return False
    for variable, value in one.items():  # noqa: SIM110  # a generator takes twice as long, after every activity
        if other.get(variable, _is_same) is not value:
            return False
    return True
