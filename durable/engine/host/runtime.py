"""What exists only while an engine is open: the coordinator and its thread, the way back into the loop, the activities.

One `Runtime` is made each time an engine is opened, and nothing of it is used again. `Core` says when each part of it
may be touched.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

import anyio
import attrs

from durable.engine.coordinator.coordinator import WorkflowStateCoordinator
from durable.engine.coordinator.inbox import Envelope
from durable.engine.host.activities import ActivityPool
from durable.engine.host.bridge import LoopBridge
from durable.engine.host.watchdog import Watchdog
from durable.engine.operations import Operation
from durable.errors import NotAcrossShards

_log = logging.getLogger("durable")
A = TypeVar("A")


@attrs.frozen(kw_only=True, eq=False)
class Runtime:
    """The parts of an open engine."""

    coordinator: WorkflowStateCoordinator
    bridge: LoopBridge
    pool: ActivityPool
    watchdog: Watchdog
    # Bounds the calls that are queued: a caller that finds no room waits for it.
    room: anyio.Semaphore
    # Set once the thread has taken the store, or has gone without it.
    opened: anyio.Event = attrs.field(factory=anyio.Event)
    # Set once the thread has let go of the store.
    gone: anyio.Event = attrs.field(factory=anyio.Event)

    async def answer(self, operation: Operation[A]) -> A:
        """Hand an operation over and wait for its answer."""
        arrived, wake = self.bridge.waiter()
        envelope = Envelope(operation, wake)
        self.coordinator.submit(envelope)
        try:
            await arrived
        except BaseException:
            envelope.is_abandoned = True
            raise
        if envelope.error is not None:
            raise envelope.error.with_traceback(None)
        answer: A = envelope.reply
        return answer

    def start_thread(self, incarnation: str, on_gone: Callable[[BaseException], None]) -> None:
        """Start the coordinator's thread. If it cannot take the store, the loop hears why from `on_gone`.

        Once it works, its last release says that it has gone.
        """
        threading.Thread(
            target=self._run_thread, args=(incarnation, on_gone), name="durable-coordinator", daemon=True
        ).start()

    def _run_thread(self, incarnation: str, on_gone: Callable[[BaseException], None]) -> None:
        try:
            self.coordinator.open(incarnation)
            if self.coordinator.state.shard.count > 1:
                self.coordinator.state.backend.close()
                raise NotAcrossShards("an engine of its own")
        except BaseException as error:
            # A backend that failed to open has cleaned up after itself, and one that is in use belongs to another.
            self.bridge.post(on_gone, error)
            return
        self.coordinator.state.watch = self.watchdog
        try:
            self.watchdog.start()
        except BaseException as error:
            # No more threads, say. Somebody waits for this answer in any case.
            self.coordinator.state.backend.close()
            self.bridge.post(on_gone, error)
            return
        self.bridge.post(lambda _: self.opened.set(), None)
        try:
            self.coordinator.run()
        finally:
            self.watchdog.stop()
