"""One attempt of an activity: on the loop, or in a thread once one is free, with its result checked and encoded.

Lives in the event loop. It knows one attempt at a time; `activities` decides which runs next and which is stopped.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel

from durable.engine.config import EngineConfig
from durable.engine.host.threads import make_threads
from durable.engine.host.witness import Witness
from durable.engine.operations import BeginAttempt, RecordActivity, RunActivity
from durable.engine.operations.facts import Notice
from durable.engine.operations.observers import Tell
from durable.errors import ActivityFailed, OperationMisused, PayloadTooLarge
from durable.model.clock import SECOND, Clock
from durable.model.codec import Codec, payload_size
from durable.model.error_codec import pack_error
from durable.runner.forgotten import IN_ACTIVITIES

# An activity of one round: workflow key, round, position.
Name = tuple[int, int, str]


class Attempts:
    """Runs attempts. Each ends in a `RecordActivity`, with the result or the error."""

    def __init__(
        self,
        report: Callable[[RecordActivity | BeginAttempt], None],
        codec: Codec,
        config: EngineConfig,
        is_cancelled: Callable[[], bool],
        *,
        clock: Clock,
        tell: Tell,
        witness: Witness | None,
    ) -> None:
        self._report = report
        self._clock = clock
        self._tell = tell
        self._witness = witness
        self._is_cancelled = is_cancelled
        self._codec = codec
        self._max_payload = config.max_payload_bytes
        # One token for each attempt that waits for a thread's result. A thread whose attempt was given up cannot be
        # stopped, but it holds no token, so it does not take the place of another.
        self._threads = anyio.CapacityLimiter(config.max_threads)
        self._thread_pool = make_threads()
        # Attempts that wait for a token.
        self.short_of_threads: set[Name] = set()
        # Names of async activities that have blocked the loop and were logged.
        self._blocking: set[str] = set()

    def close(self) -> None:
        """Let idle threads end."""
        self._thread_pool.close()

    async def run(self, effect: RunActivity, scope: anyio.CancelScope) -> RecordActivity:
        """Run one attempt and return what to report. Any error of the activity is part of that.

        Raises only a real cancellation, and `KeyboardInterrupt` on the loop. `scope` is the attempt's cancel scope,
        which receives the deadline.
        """
        definition = effect.definition
        try:
            if effect.on_trial and definition.is_async:
                self._report(BeginAttempt(effect.key))
            if definition.is_async:
                if definition.timeout_us is not None:
                    _set_deadline(effect, scope)
                if self._witness is None:
                    value = await definition.fn(*effect.args, **effect.kwargs)
                else:
                    with self._witness.attend(effect):
                        value = await definition.fn(*effect.args, **effect.kwargs)
            else:
                value = await self._in_thread(effect, scope)
            if IN_ACTIVITIES:
                _refuse_forgotten(effect)
            text, value = definition.coder(self._codec).result.pack(value)
            if (size := payload_size(text)) > self._max_payload:
                raise PayloadTooLarge(f"{definition.label}: result", size, self._max_payload)
        except anyio.get_cancelled_exc_class() as error:
            # Either this task was cancelled, or the activity raised a CancelledError of its own. This raises the
            # former.
            await anyio.lowlevel.checkpoint_if_cancelled()
            if self._is_cancelled():
                # asyncio cancels every task when its loop ends. The attempt did not fail: it runs again after a
                # restart.
                raise
            return self.failed(effect, error)
        except KeyboardInterrupt:
            # On the loop this is Ctrl-C, not an error of the activity.
            raise
        except BaseException as error:
            return self.failed(effect, error)
        finally:
            if IN_ACTIVITIES:
                # In `finally`: also after an attempt that failed or was cancelled.
                IN_ACTIVITIES.pop(id(effect), None)
        return RecordActivity(
            effect.key, effect.round, effect.position, effect.attempt, text, value, mends=effect.mends
        )

    async def _in_thread(self, effect: RunActivity, scope: anyio.CancelScope) -> Any:
        def call() -> Any:
            try:
                return effect.definition.fn(*effect.args, **effect.kwargs)
            except (KeyboardInterrupt, GeneratorExit) as error:
                # No signal reaches a worker thread, so the activity raised it. A GeneratorExit that was raised again
                # in the loop would close the task that waits for the thread.
                raise ActivityFailed(f"builtins.{type(error).__name__}", str(error)) from error

        name = (effect.key, effect.round, effect.position)
        self.short_of_threads.add(name)
        try:
            await self._threads.acquire()
        finally:
            # Also if it is cancelled while it waits.
            self.short_of_threads.discard(name)
        try:
            # Only now: an attempt that waits for a thread has not begun, and its timeout does not run.
            if effect.on_trial:
                self._report(BeginAttempt(effect.key))
            _set_deadline(effect, scope)
            with contextlib.nullcontext() if self._witness is None else self._witness.attend(effect):
                return await self._thread_pool.run(call, scope)
        finally:
            self._threads.release()

    def warn_of_blocking(self, effect: RunActivity) -> None:
        """Log, once per activity, that it returned long after its timeout: it never let the loop cancel it."""
        name, id = effect.definition.name, effect.workflow_id
        if name not in self._blocking:
            self._blocking.add(name)
            text = (
                f"activity {name!r} ran past its timeout without an 'await' and held up the event loop: make it a "
                "plain 'def' that runs in a thread, or await what takes long; the attempt counts as timed out"
            )
            fields = {"workflow_id": id, "workflow_name": effect.workflow_name, "position": effect.position}
            self._tell(Notice(at_us=self._clock.now(), level=logging.WARNING, text=text, fields=fields))

    def failed(self, effect: RunActivity, error: BaseException) -> RecordActivity:
        """What to report about an attempt that failed."""
        key, round, position, attempt = effect.key, effect.round, effect.position, effect.attempt
        return RecordActivity(key, round, position, attempt, pack_error(error), error=error, mends=effect.mends)


def _refuse_forgotten(effect: RunActivity) -> None:
    """Raises `OperationMisused` if the activity made an operation and dropped it: what it asks for did not happen."""
    _, problem = IN_ACTIVITIES.get(id(effect), (None, None))
    if problem is not None:
        raise OperationMisused(problem)


def grace(timeout: int) -> float:
    """How many seconds past its timeout (in microseconds) an attempt may end before it counts as blocking the loop.

    Generous, because a loop under load is late without any activity that blocks it.
    """
    return 0.1 + timeout / SECOND / 2


def _set_deadline(effect: RunActivity, scope: anyio.CancelScope) -> None:
    if effect.definition.timeout_us is not None:
        scope.deadline = anyio.current_time() + effect.definition.timeout_us / SECOND
