"""Runs activities: `async def` on the host's event loop, `def` in worker threads.

Lives in the event loop and owns no workflow state. It receives effects from the coordinator and reports back
`RecordActivity` operations. Whether a result is still wanted is for the coordinator to decide.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context

import anyio
import anyio.abc
import anyio.lowlevel
import attrs

from durable.engine.config import EngineConfig
from durable.engine.host.attempts import Attempts, Name, grace
from durable.engine.host.bridge import Waiter
from durable.engine.host.witness import Witness
from durable.engine.operations import BeginAttempt, RecordActivity, RunActivity, StopActivity
from durable.engine.operations.facts import Draining
from durable.engine.operations.log_lines import write
from durable.engine.operations.observers import Tell, split_trace
from durable.errors import ActivityTimedOut, OperationMisused
from durable.model.clock import SECOND, Clock, SystemClock
from durable.model.codec import Codec
from durable.model.position import place
from durable.runner.ops import IN_ACTIVITY

# How often a drain logs what it waits for, in seconds, and how many activities it names.
_LOG_EVERY = 5.0
_NAMED_MAX = 3
# How many activities a worker runs in a row before it lets other tasks of the loop run.
_IN_A_ROW_MAX = 50
# How many idle workers are kept.
_IDLE_MAX = 100


@attrs.frozen(kw_only=True)
class ActivityInfo:
    """The activity that is running: its workflow, its place there, its attempt.

    `idempotency_key` is the same for every attempt, across crashes and restarts: pass it to services that accept one.
    """

    workflow_id: str
    workflow_name: str
    activity: str
    position: str
    attempt: int
    idempotency_key: str
    traceparent: str | None = None
    """Where the caller of the workflow was in its trace, as a W3C header; None if no observer carries traces."""
    tracestate: str | None = None


def activity_info() -> ActivityInfo:
    """What is known about the activity that calls this. Raises `OperationMisused` outside an activity."""
    effect = IN_ACTIVITY.get()
    if effect is None:
        raise OperationMisused("activity_info() works only inside an activity")
    parent, state = split_trace(effect.trace)
    return ActivityInfo(
        workflow_id=effect.workflow_id,
        workflow_name=effect.workflow_name,
        activity=effect.definition.name,
        position=effect.position,
        attempt=effect.attempt,
        idempotency_key=f"{effect.workflow_id}/{place(effect.round, effect.position)}",
        traceparent=parent,
        tracestate=state,
    )


class Worker:
    """A task that runs activities one after the other, under one cancel scope."""

    # Wakes it while it is idle; set by `_rest`.
    wake: Callable[[], None]

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()


class ActivityPool:
    """Runs at most `max_running_activities` activities at once; the others wait in a queue.

    A task costs more than a short activity, so a worker that finishes one without waiting takes the next one itself. As
    soon as an activity does wait, the worker that was called behind it takes over: there are as many workers as
    activities that wait for something, and one more. That one is started before it is needed, because effects arrive in
    a bare callback of the loop, where no task can be started.
    """

    def __init__(
        self,
        tasks: anyio.abc.TaskGroup,
        report: Callable[[RecordActivity | BeginAttempt], None],
        codec: Codec,
        config: EngineConfig,
        *,
        waiter: Callable[[], Waiter],
        is_cancelled: Callable[[], bool],
        clock: Clock | None = None,
        tell: Tell = write,
        witness: Witness | None = None,
    ) -> None:
        self._tasks = tasks
        self._clock = clock = clock or SystemClock()
        self._tell = tell
        self._witness = witness
        self._waiter = waiter
        self._report = report
        self._limit = config.max_running_activities
        self._attempts = Attempts(report, codec, config, is_cancelled, clock=clock, tell=tell, witness=witness)
        self._waiting: deque[RunActivity] = deque()
        self._running: dict[Name, tuple[anyio.CancelScope, RunActivity]] = {}
        # Scopes cancelled because the result is not wanted; any other cancelled scope has timed out. By scope and not
        # by name: an activity that is slow to stop may have a successor of the same name.
        self._unwanted: set[anyio.CancelScope] = set()
        # Workers start in this context and not in that of the worker that calls them, which an activity may have
        # changed.
        self._context = copy_context()
        self._idle: list[Worker] = []
        self._workers = 0
        # Whether a worker was started or woken and has not begun yet: then no other one is called.
        self._is_called = False
        self._is_draining = False
        self._all_gone = anyio.Event()
        self._patience = anyio.CancelScope()

    def running_positions(self, key: int, round: int) -> frozenset[str]:
        """Where activities of a workflow run now. One that waits for a worker or for a thread does not count."""
        waiting = self._attempts.short_of_threads
        names = (name for name in self._running if name[:2] == (key, round) and name not in waiting)
        return frozenset(position for _, _, position in names)

    def start(self) -> None:
        """Begin with the effects that have already arrived; from now on a worker is ready. Call it from a task."""
        self._call_worker()

    def apply(self, effects: list[RunActivity | StopActivity]) -> None:
        """Queue or stop what the coordinator has released. Starts no task: a bare callback of the loop may call it."""
        stopped: set[Name] = set()
        for effect in effects:
            name = (effect.key, effect.round, effect.position)
            if isinstance(effect, RunActivity):
                if name in stopped:
                    self._forget(stopped)
                self._waiting.append(effect)
                continue
            if name in self._running:
                self._cancel(name)
            # Also if one of this name runs: that may be a predecessor, and the one to stop is still in the queue.
            stopped.add(name)
        if stopped:
            self._forget(stopped)
        if self._idle:
            self._call_worker()

    async def drain(self, seconds: float) -> None:
        """Start nothing new, wait up to `seconds` for what runs, then cancel it.

        An attempt that was cut off reports nothing, so it runs again after the next start.
        """
        self._is_draining = True
        self._waiting.clear()
        for worker in self._idle:
            worker.wake()
        try:
            await self._let_finish(seconds)
        finally:
            # In `finally` because asyncio's own cancel() may end the wait, and the task group waits for every worker.
            for name in list(self._running):
                self._cancel(name)
            self._attempts.close()
        if self._workers:
            with anyio.move_on_after(1.0):
                await self._all_gone.wait()

    def hurry(self) -> None:
        """End the drain that is under way, or make the next one wait for nothing."""
        self._patience.cancel()

    async def _let_finish(self, seconds: float) -> None:
        """Wait until all workers have ended, and log what they run: somebody may be waiting for the service to stop."""
        self._patience.deadline = until = anyio.current_time() + (0.0 if self._patience.cancel_called else seconds)
        with self._patience:
            while self._workers:
                left = until - anyio.current_time()
                if self._running and left > 0:
                    self._tell(_draining([effect for _, effect in self._running.values()], left, self._clock.now()))
                with anyio.move_on_after(_LOG_EVERY):
                    await self._all_gone.wait()

    def _call_worker(self) -> None:
        """Have one more worker take from the queue, or be ready for what arrives, unless one is already on its way.

        Starts a task only if no worker is idle.
        """
        if self._is_called or self._is_draining:
            return
        if self._idle:
            if self._waiting:
                self._is_called = True
                self._idle.pop().wake()
        elif self._workers < self._limit:
            self._is_called = True
            self._context.run(self._start_worker)

    def _start_worker(self) -> None:
        self._tasks.start_soon(self._work)

    def _forget(self, names: set[Name]) -> None:
        """Remove the activities to stop from the queue, and clear `names`.

        In one pass over the queue: one pass for each would block the loop when a big gather fails.
        """
        kept: deque[RunActivity] = deque()
        forgotten: list[RunActivity] = []
        for effect in self._waiting:
            (forgotten if (effect.key, effect.round, effect.position) in names else kept).append(effect)
        self._waiting = kept
        names.clear()
        if self._witness is not None:
            self._witness.never_begun(forgotten)

    def _cancel(self, name: Name) -> None:
        scope, _ = self._running[name]
        self._unwanted.add(scope)
        scope.cancel()

    async def _work(self) -> None:
        # Counted only here: a task that is cancelled before its first step never runs, and a drain must not wait for
        # it.
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
        """Run activities until the queue is empty. Returns whether the worker can be used again."""
        for count in itertools.count(1):
            if self._is_draining or not self._waiting:
                break
            effect = self._waiting.popleft()
            if not self._is_called:
                self._call_worker()
            if not await self._run(worker, effect):
                return False
            if count % _IN_A_ROW_MAX == 0:
                # Short activities in a row must not keep the host's other tasks waiting.
                await anyio.lowlevel.cancel_shielded_checkpoint()
        return not self._is_draining

    async def _rest(self, worker: Worker) -> bool:
        """Wait to be called again. Returns False, at once, if there are enough idle workers."""
        if len(self._idle) >= _IDLE_MAX:
            return False
        call, worker.wake = self._waiter()
        self._idle.append(worker)
        await call
        self._is_called = False
        return True

    async def _run(self, worker: Worker, effect: RunActivity) -> bool:
        """Run one activity and report its result. Returns whether the worker can be used again."""
        name = (effect.key, effect.round, effect.position)
        timeout = effect.definition.timeout_us
        scope = worker.scope if timeout is None else anyio.CancelScope()
        context = copy_context()
        token = IN_ACTIVITY.set(effect)
        self._running[name] = running = (scope, effect)
        answer: RecordActivity | None = None
        is_wanted = True
        try:
            if timeout is None:
                answer = await self._attempts.run(effect, scope)
            else:
                with scope:
                    answer = await self._attempts.run(effect, scope)
                    if effect.definition.is_async and anyio.current_time() > scope.deadline + grace(timeout):
                        self._attempts.warn_of_blocking(effect)
                        answer = None
        except BaseException:
            if self._witness is not None:
                self._witness.ended(effect, None)
            raise
        finally:
            IN_ACTIVITY.reset(token)
            if self._running.get(name) is running:
                del self._running[name]
            if scope in self._unwanted:
                is_wanted = False
                self._unwanted.discard(scope)
        if is_wanted and answer is None and timeout is not None:
            answer = self._attempts.failed(effect, ActivityTimedOut(effect.definition.name, timeout / SECOND))
        if self._witness is not None:
            # Before the answer is on its way, so that observers learn of the attempt before what follows from it.
            self._witness.ended(effect, answer if is_wanted else None)
        if is_wanted and answer is not None:
            self._report(answer)
        # A cancellation that came too late for this activity must not hit the next one, and context variables that this
        # one set must not reach the next one. In both cases the worker ends.
        return not worker.scope.cancel_called and _is_same(copy_context(), context)


def _draining(running: list[RunActivity], seconds: float, now: int) -> Draining:
    """What a drain waits for."""
    names = [f"{effect.definition.name} of workflow {effect.workflow_id}" for effect in running[:_NAMED_MAX]]
    more = f" and {len(running) - _NAMED_MAX} more" if len(running) > _NAMED_MAX else ""
    activities = "1 activity" if len(running) == 1 else f"{len(running)} activities"
    return Draining(
        at_us=now,
        text=f"shutting down: waiting up to {seconds:.0f} s for {activities}: {', '.join(names)}{more}",
        running=len(running),
        workflow_ids=tuple(sorted({effect.workflow_id for effect in running})),
        seconds_left=seconds,
    )


def _is_same(after: Context, before: Context) -> bool:
    """Whether two contexts hold the same objects. Not by `==`: it would call `__eq__` of values of any class."""
    if len(after) != len(before):
        return False
    # `_is_same` as a default: an object that no context holds.
    for variable, value in after.items():  # noqa: SIM110  # a generator takes twice as long, after every activity
        if before.get(variable, _is_same) is not value:
            return False
    return True
