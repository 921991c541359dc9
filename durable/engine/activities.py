"""Runs activities: `async def` on the host's event loop, `def` in worker threads.

Lives on the loop and owns no state of any workflow. It takes effects from the coordinator and gives back
`RecordActivity` operations; whether an answer is still wanted is the coordinator's business.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread
import attrs

from durable.clock import SECOND
from durable.codec import Codec, payload_size
from durable.engine.config import EngineConfig
from durable.engine.operations import RecordActivity, RunActivity, StopActivity
from durable.errors import ActivityFailed, ActivityTimedOut, OperationMisused, PayloadTooLarge
from durable.ids import place
from durable.outcomes import pack_error
from durable.runner.ops import IN_ACTIVITY

_log = logging.getLogger("durable")


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


class ActivityPool:
    """Runs a bounded number of activities at once; the others wait their turn."""

    def __init__(
        self,
        tasks: anyio.abc.TaskGroup,
        report: Callable[[RecordActivity], None],
        codec: Codec,
        config: EngineConfig,
    ) -> None:
        self._tasks = tasks
        self._report = report
        self._codec = codec
        self._limit = config.max_running_activities
        self._max_payload = config.max_payload_bytes
        # Held while somebody waits for the thread. A thread that nobody waits for any more cannot be stopped, but it
        # must not take the place of those that are waited for; hence the second, unlimited one for the hand-over.
        self._threads = anyio.CapacityLimiter(config.max_threads)
        self._unlimited = anyio.CapacityLimiter(math.inf)
        self._waiting: deque[RunActivity] = deque()
        self._running: dict[tuple[int, int, str], anyio.CancelScope] = {}
        # Those that were cancelled because nobody wants their answer; the others that are cut off have timed out.
        self._unwanted: set[tuple[int, int, str]] = set()
        self._workers = 0
        self._is_draining = False
        self._idle = anyio.Event()

    def apply(self, effects: list[RunActivity | StopActivity]) -> None:
        """Take what the coordinator has released."""
        for effect in effects:
            if isinstance(effect, RunActivity):
                self._waiting.append(effect)
            else:
                self._stop(effect)
        while self._waiting and self._workers < self._limit and not self._is_draining:
            self._workers += 1
            self._tasks.start_soon(self._work, self._waiting.popleft())

    async def drain(self, seconds: float) -> None:
        """Begin nothing new, let what runs finish for a while, then cancel it. What was cut off runs again later."""
        self._is_draining = True
        self._waiting.clear()
        if self._workers:
            with anyio.move_on_after(seconds):
                await self._idle.wait()
        for name in list(self._running):
            self._cancel(name)
        if self._workers:
            with anyio.move_on_after(1.0):
                await self._idle.wait()

    def _stop(self, effect: StopActivity) -> None:
        name = (effect.key, effect.round, effect.position)
        if name in self._running:
            self._cancel(name)
        else:
            self._waiting = deque(one for one in self._waiting if (one.key, one.round, one.position) != name)

    def _cancel(self, name: tuple[int, int, str]) -> None:
        self._unwanted.add(name)
        self._running[name].cancel()

    async def _work(self, effect: RunActivity | None) -> None:
        """Run activities one after the other for as long as some wait: a task is worth more than one of them."""
        try:
            while effect is not None:
                await self._run(effect)
                effect = self._waiting.popleft() if self._waiting and not self._is_draining else None
        finally:
            self._workers -= 1
            if not self._workers and self._is_draining:
                self._idle.set()

    async def _run(self, effect: RunActivity) -> None:
        timeout = effect.definition.timeout_us
        name = (effect.key, effect.round, effect.position)
        token = IN_ACTIVITY.set(effect)
        scope = anyio.CancelScope() if timeout is None else anyio.move_on_after(timeout / SECOND)
        self._running[name] = scope
        answer: RecordActivity | None = None
        try:
            with scope:
                answer = await self._attempt(effect)
        finally:
            IN_ACTIVITY.reset(token)
            del self._running[name]
            is_unwanted = name in self._unwanted
            self._unwanted.discard(name)
        if answer is None and timeout is not None and not is_unwanted:
            answer = self._failed(effect, ActivityTimedOut(effect.definition.name, timeout / SECOND))
        if answer is not None:
            self._report(answer)

    async def _attempt(self, effect: RunActivity) -> RecordActivity:
        definition = effect.definition
        try:
            if definition.is_async:
                value = await definition.fn(*effect.args, **effect.kwargs)
            else:
                value = await self._in_thread(effect)
            text, value = self._codec.function(definition.fn, definition.label).result.pack(value)
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
            key=effect.key,
            round=effect.round,
            position=effect.position,
            attempt=effect.attempt,
            outcome=text,
            value=value,
        )

    async def _in_thread(self, effect: RunActivity) -> Any:
        def call() -> Any:
            try:
                return effect.definition.fn(*effect.args, **effect.kwargs)
            except KeyboardInterrupt as error:
                # No signal arrives in a worker thread, so the activity itself has raised it.
                raise ActivityFailed("builtins.KeyboardInterrupt", str(error)) from error

        async with self._threads:
            return await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._unlimited)

    def _failed(self, effect: RunActivity, error: BaseException) -> RecordActivity:
        return RecordActivity(
            key=effect.key,
            round=effect.round,
            position=effect.position,
            attempt=effect.attempt,
            outcome=pack_error(error),
            error=error,
        )
