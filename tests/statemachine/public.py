"""The real engine with its threads, on a SQLite file, through the public API only."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from durable import DeadLetterPolicy, EngineConfig, SyncWorkflowEngine, WorkflowStatus
from durable.testing.clock import ManualClock
from tests.statemachine.program import EVENTS, program

# The first call may be decided before the engine reads the clock; the second comes after everything that is due.
_TURNS = 2


class Public:
    """A `SyncWorkflowEngine` in virtual time. It has no activities, because the machine cannot say when one ends."""

    has_activities = False

    def __init__(self, *, limit: int, policy: DeadLetterPolicy, loaded: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name) / "machine.db"
        self._config = EngineConfig(max_pending_events=limit, dead_letter_policy=policy, max_loaded_workflows=loaded)
        self._clock = ManualClock()
        self.now = self._clock.now
        self._open()

    def _open(self) -> None:
        self._engine = SyncWorkflowEngine(self._path, workflows=[program], config=self._config, clock=self._clock)
        self._engine.__enter__()
        self._settle()

    def _settle(self) -> None:
        """The engine notices elapsed time at the next call, and handles it in the batches after that."""
        for _ in range(_TURNS):
            self._engine.query_status("nobody")
        while self._engine.runs.count(status=WorkflowStatus.RUNNING):
            # Without activities, only a round that has not begun yet is running.
            pass

    def _do(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        finally:
            self._settle()

    # --- the verbs ------------------------------------------------------------------------------------------------

    def start(self, id: str, steps: tuple[str, ...], delay: int) -> str:
        """Start a workflow. Returns its id."""
        workflow_id: str = self._do(lambda: self._engine.start(program(list(steps), []), id=id, delay=delay)).id
        return workflow_id

    def send(self, content: tuple[str, str, int], to: str | None, event_id: str | None, *, early: bool) -> Any:
        """Send an event: name, key and payload."""
        name, key, payload = content
        return self._do(
            lambda: self._engine.send_event(
                EVENTS[name], payload, to=to, key=key or None, event_id=event_id, allow_unstarted=early
            )
        )

    def cancel(self, id: str) -> bool:
        """Cancel a workflow."""
        accepted: bool = self._do(lambda: self._engine.cancel(id))
        return accepted

    def terminate(self, id: str) -> bool:
        """End a workflow at once."""
        accepted: bool = self._do(lambda: self._engine.terminate(id))
        return accepted

    def status(self, id: str) -> str | None:
        """The status of a workflow."""
        status = self._engine.query_status(id)
        return None if status is None else status.value

    def list(self, status: str, after: str | None) -> list[str]:
        """The ids of the workflows with this status, newest first."""
        return [summary.id for summary in self._engine.runs.list(status=WorkflowStatus(status), after=after)]

    def count(self, status: str) -> int:
        """How many workflows have this status."""
        return self._engine.runs.count(status=WorkflowStatus(status))

    def replay(self, payload: int, to: str | None) -> Any:
        """Send the dead letter with this payload again."""
        return self._do(lambda: self._engine.dead_letters.replay(self._letter(payload), to))

    def remove(self, payload: int) -> None:
        """Remove the dead letter with this payload."""
        self._engine.dead_letters.remove(self._letter(payload))

    def _letter(self, payload: int) -> int:
        return next((letter.id for letter in self._engine.dead_letters.list() if letter.payload == payload), 0)

    def purge(self, seconds: int) -> int:
        """Remove workflows that ended long ago."""
        return self._engine.runs.purge(seconds)

    # --- what happens --------------------------------------------------------------------------------------------

    def advance(self, seconds: int) -> None:
        """Let time pass."""
        self._clock.advance(seconds)
        self._settle()

    def restart(self, *, clean: bool, downtime: int) -> None:
        """Shut the engine down and open it again. Other tests crash it."""
        self._engine.__exit__(None, None, None)
        self._clock.advance(downtime)
        self._open()

    def evict(self) -> None:
        """Nothing: users cannot evict bodies."""

    # --- what is visible ------------------------------------------------------------------------------------------

    def describe(self, id: str) -> dict[str, Any]:
        """What a workflow waits for."""
        description = self._engine.runs.describe(id)
        return {
            "waits": sorted((wait.kind, wait.name, wait.attempt) for wait in description.waits),
            "mail": description.pending_events,
            "cancelled": description.cancel_requested,
            "round": description.round,
        }

    def picture(self) -> dict[str, Any]:
        """What users can see of all workflows and letters."""
        flows = {}
        for summary in self._engine.runs.list(limit=1000):
            result = self._engine.query_result(summary.id)
            text = None if result is None else json.dumps(result, separators=(",", ":"))
            wake_at = None if summary.wake_at is None else round(summary.wake_at.timestamp() * 1_000_000)
            flows[summary.id] = (summary.status.value, text, wake_at)
        letters = self._engine.dead_letters.list()
        return {
            "flows": flows,
            "letters": [(letter.name, letter.event_key, letter.workflow_id, letter.payload_json) for letter in letters],
        }

    def close(self) -> None:
        """Shut down, and delete the file."""
        self._engine.__exit__(None, None, None)
        self._folder.cleanup()
