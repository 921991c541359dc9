"""Logs the name of a workflow body that is slow or stuck.

Bodies run on the coordinator's thread, so one that computes for a minute holds up all the others for a minute. It
cannot be interrupted, but it can be named while it happens.
"""

from __future__ import annotations

import sys
import threading
import traceback

from durable.engine.config import EngineConfig
from durable.engine.operations.facts import BodySlow, BodyStuck
from durable.engine.operations.log_lines import write
from durable.engine.operations.observers import Tell
from durable.model.clock import SECOND, Clock, from_duration
from durable.model.records import WorkflowRecord
from durable.runner.session import WorkflowSessionRunner


class Watchdog:
    """Measures every step of a body, and checks from its own thread whether one is stuck.

    The coordinator's thread calls `enter` and `leave` around each step; the two sides share two attributes and no lock.
    """

    def __init__(self, clock: Clock, config: EngineConfig, tell: Tell = write) -> None:
        self._clock = clock
        self._tell = tell
        self._slow = from_duration("slow_body_after", config.slow_body_after) / SECOND
        self._stuck = from_duration("stuck_body_after", config.stuck_body_after) / SECOND
        self._record: WorkflowRecord | None = None
        self._since = 0.0
        self._reported: WorkflowRecord | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="durable-watchdog", daemon=True)
        self._watched_thread = 0

    def start(self) -> None:
        """Watch the calling thread from now on."""
        self._watched_thread = threading.get_ident()
        self._thread.start()

    def stop(self) -> None:
        """End the watch."""
        self._stop.set()

    def enter(self, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
        """A body begins a step."""
        self._since = self._clock.monotonic()
        self._record = record

    def leave(self) -> float:
        """The body has ended its step. Logs a step that took longer than `slow_body_after`."""
        record, self._record = self._record, None
        took = self._clock.monotonic() - self._since
        if took > self._slow and record is not None:
            at = self._clock.now()
            self._tell(BodySlow(at_us=at, workflow_id=record.id, workflow_name=record.name, seconds=took))
        return took

    def check(self) -> None:
        """Log the body that has been in one step for `stuck_body_after`, once, with its stack."""
        record = self._record
        if record is None or record is self._reported or self._clock.monotonic() - self._since < self._stuck:
            return
        self._reported = record
        frame = sys._current_frames().get(self._watched_thread)
        stack = "".join(traceback.format_stack(frame)[-4:]) if frame is not None else "(no stack)"
        about = {"workflow_id": record.id, "workflow_name": record.name}
        self._tell(BodyStuck(at_us=self._clock.now(), **about, seconds=self._stuck, stack=stack))

    def _watch(self) -> None:
        while not self._stop.wait(max(self._stuck / 2, 0.01)):
            self.check()
