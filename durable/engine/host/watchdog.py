"""Names the workflow body that is slow, or that does not come back.

Bodies run on the coordinator thread, so one that computes for a minute holds up all the others for a minute. It cannot
be interrupted, but it can be named while it is happening.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback

from durable.engine.config import EngineConfig
from durable.engine.operations.log_lines import about
from durable.model.clock import SECOND, Clock, from_duration
from durable.model.records import WorkflowRecord
from durable.runner.session import WorkflowSessionRunner

_log = logging.getLogger("durable")


class Watchdog:
    """Told by the coordinator when a body begins and ends a step; looks up from time to time on a thread of its own."""

    def __init__(self, clock: Clock, config: EngineConfig) -> None:
        self._clock = clock
        self._slow = from_duration("slow_body_after", config.slow_body_after) / SECOND
        self._stuck = from_duration("stuck_body_after", config.stuck_body_after) / SECOND
        self._record: WorkflowRecord | None = None
        self._since = 0.0
        self._named: WorkflowRecord | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, name="durable-watchdog", daemon=True)
        self._watched = 0

    def start(self) -> None:
        """Begin to look after the calling thread."""
        self._watched = threading.get_ident()
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()

    def enter(self, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
        """A body begins a step."""
        self._since = self._clock.monotonic()
        self._record = record

    def leave(self) -> None:
        """It came back."""
        record, self._record = self._record, None
        took = self._clock.monotonic() - self._since
        if took > self._slow and record is not None:
            _log.warning(
                "workflow %s (%s) took %.2f s for one step and held up all others; move the work into an activity",
                record.id, record.name, took, extra=about(record),
            )  # fmt: skip

    def check(self) -> None:
        """Name the body that is stuck right now, once."""
        record = self._record
        if record is None or record is self._named or self._clock.monotonic() - self._since < self._stuck:
            return
        self._named = record
        frame = sys._current_frames().get(self._watched)
        stack = "".join(traceback.format_stack(frame)[-4:]) if frame is not None else "(no stack)"
        _log.error(
            "workflow %s (%s) has not come back for %.0f s; nothing else can go on. It is here:\n%s",
            record.id, record.name, self._stuck, stack, extra=about(record),
        )  # fmt: skip

    def _look(self) -> None:
        while not self._stop.wait(max(self._stuck / 2, 0.01)):
            self.check()
