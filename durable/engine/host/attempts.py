"""One attempt of an activity: on the loop, or in a thread once there is one, with its result checked and packed.

Lives on the loop. Knows one attempt at a time; who runs next, and what is stopped, is the business of `activities`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel

from durable.engine.config import EngineConfig
from durable.engine.host.threads import make_threads
from durable.engine.operations import BeginAttempt, RecordActivity, RunActivity
from durable.errors import ActivityFailed, OperationMisused, PayloadTooLarge
from durable.model.clock import SECOND
from durable.model.codec import Codec, payload_size
from durable.model.error_codec import pack_error
from durable.runner.forgotten import IN_ACTIVITIES

_log = logging.getLogger("durable")
# An activity of one round: workflow key, round, position.
Name = tuple[int, int, str]


class Attempts:
    """Runs attempts and says what came of each."""

    def __init__(
        self,
        report: Callable[[RecordActivity | BeginAttempt], None],
        codec: Codec,
        config: EngineConfig,
        is_cancelled: Callable[[], bool],
    ) -> None:
        self._report = report
        self._is_cancelled = is_cancelled
        self._codec = codec
        self._max_payload = config.max_payload_bytes
        # Held while somebody waits for the thread. A thread that nobody waits for any more cannot be stopped, but it
        # must not take the place of those that are waited for.
        self._threads = anyio.CapacityLimiter(config.max_threads)
        self._thread_pool = make_threads()
        # Those that wait for a thread.
        self.short_of_threads: set[Name] = set()
        # Async activities that were seen to hold up the loop.
        self._blocking: set[str] = set()

    def close(self) -> None:
        """Let go of threads that have nothing to do."""
        self._thread_pool.close()

    async def run(self, effect: RunActivity, scope: anyio.CancelScope) -> RecordActivity:
        """What came of one attempt, ready to be reported. Only a real cancellation is raised."""
        definition = effect.definition
        try:
            if effect.on_trial and definition.is_async:
                self._report(BeginAttempt(effect.key))
            if definition.is_async:
                if definition.timeout_us is not None:
                    _set_deadline(effect, scope)
                value = await definition.fn(*effect.args, **effect.kwargs)
            else:
                value = await self._in_thread(effect, scope)
            if IN_ACTIVITIES:
                _refuse_forgotten(effect)
            text, value = definition.coder(self._codec).result.pack(value)
            if (size := payload_size(text)) > self._max_payload:
                raise PayloadTooLarge(f"{definition.label}: result", size, self._max_payload)
        except anyio.get_cancelled_exc_class() as error:
            # Really cancelled, or an activity that lets a CancelledError of its own making escape?
            await anyio.lowlevel.checkpoint_if_cancelled()
            if self._is_cancelled():
                # asyncio ends its loop and cancels every task. The attempt did not fail: it runs again after a start.
                raise
            return self.failed(effect, error)
        except KeyboardInterrupt:
            # On the loop this is the person at the keyboard, not the activity.
            raise
        except BaseException as error:
            return self.failed(effect, error)
        finally:
            if IN_ACTIVITIES:
                # Also of an attempt that has raised an error of its own, or was cancelled.
                IN_ACTIVITIES.pop(id(effect), None)
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

        name = (effect.key, effect.round, effect.position)
        self.short_of_threads.add(name)
        try:
            await self._threads.acquire()
        finally:
            # Also when it is cancelled before it has a thread.
            self.short_of_threads.discard(name)
        try:
            # Not before: an attempt that waits for a thread has not begun.
            if effect.on_trial:
                self._report(BeginAttempt(effect.key))
            _set_deadline(effect, scope)
            return await self._thread_pool.run(call, scope)
        finally:
            self._threads.release()

    def warn_of_blocking(self, effect: RunActivity) -> None:
        """An async activity came back long after its timeout: it never let the loop cancel it. Said once for each."""
        name, id = effect.definition.name, effect.workflow_id
        if name not in self._blocking:
            self._blocking.add(name)
            _log.warning(
                "activity %r ran past its timeout without an 'await' and held up the event loop: make it a plain 'def' "
                "that runs in a thread, or await what takes long; the attempt counts as timed out",
                name,
                extra={"workflow_id": id, "workflow_name": effect.workflow_name, "position": effect.position},
            )

    def failed(self, effect: RunActivity, error: BaseException) -> RecordActivity:
        """What to report of an attempt that has failed."""
        key, round, position, attempt = effect.key, effect.round, effect.position, effect.attempt
        return RecordActivity(key, round, position, attempt, pack_error(error), error=error, mends=effect.mends)


def _refuse_forgotten(effect: RunActivity) -> None:
    """Raises `OperationMisused` if the activity has dropped an operation: what it should have done was not done."""
    _, problem = IN_ACTIVITIES.get(id(effect), (None, None))
    if problem is not None:
        raise OperationMisused(problem)


def grace(timeout: int) -> float:
    """Seconds by which an attempt may be late before the loop must have been held up: loops are late under load."""
    return 0.1 + timeout / SECOND / 2


def _set_deadline(effect: RunActivity, scope: anyio.CancelScope) -> None:
    if effect.definition.timeout_us is not None:
        scope.deadline = anyio.current_time() + effect.definition.timeout_us / SECOND
