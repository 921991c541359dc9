"""What exists only while an engine is open: the coordinator and its thread, the bridge into the loop, the activities.

Each opening of an engine makes a new `Runtime`; nothing of the old one is used again. `Core` decides when each part may
be used.
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
from durable.engine.operations.requests import Request
from durable.errors import NotAcrossShards

_log = logging.getLogger("durable")
A = TypeVar("A")


@attrs.frozen(kw_only=True, eq=False)
class Runtime:
    """The parts of an open engine. Used in its event loop, except `_run_thread`, which is the coordinator's thread."""

    coordinator: WorkflowStateCoordinator
    bridge: LoopBridge
    pool: ActivityPool
    watchdog: Watchdog
    # One permit for each operation that is submitted and not answered; `max_inbox` of them.
    room: anyio.Semaphore
    # Set once the thread has opened the store, or has ended because it could not.
    opened: anyio.Event = attrs.field(factory=anyio.Event)
    # Set once the thread has closed the store.
    gone: anyio.Event = attrs.field(factory=anyio.Event)

    async def answer(self, operation: Operation[A], request: Request | None = None) -> A:
        """Submit an operation and wait for its reply, or raise its error. A repeated request gets `Repeated`.

        If the caller is cancelled, the operation stays in the inbox and may still take effect.
        """
        arrived, wake = self.bridge.waiter()
        envelope = Envelope(operation, wake, request)
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
        """Start the coordinator's thread. If it cannot open the store, `on_gone` is called in the loop with the error.

        After that point its last `Release` reports its end instead.
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
            # Nothing to close: a backend that fails to open cleans up after itself.
            self.bridge.post(on_gone, error)
            return
        self.coordinator.state.watch = self.watchdog
        try:
            self.watchdog.start()
        except BaseException as error:
            # For example, no more threads can be started. The task that opens the engine must get an answer.
            self.coordinator.state.backend.close()
            self.bridge.post(on_gone, error)
            return
        self.bridge.post(lambda _: self.opened.set(), None)
        try:
            self.coordinator.run()
        finally:
            self.watchdog.stop()
