"""The real engine with its threads, on a SQLite file, through the public API and nothing else."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from durable import DeadLetterPolicy, EngineConfig, SyncWorkflowEngine, WorkflowStatus
from durable.testing.clock import ManualClock
from tests.statemachine.program import EVENTS, program

# The first call may be taken before the engine looks at the clock, the second comes behind what is due.
_TURNS = 2


class Public:
    """A `SyncWorkflowEngine` in virtual time. There are no activities: when one ends is not for the machine to say."""

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
        """The engine notices that time has passed with the next call, and acts on it in the batches after that."""
        for _ in range(_TURNS):
            self._engine.query_status("nobody")
        while self._engine.runs.count(status=WorkflowStatus.RUNNING):
            # Without activities only a round that has not begun yet is running.
            pass

    def _do(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        finally:
            self._settle()

    # --- the verbs ------------------------------------------------------------------------------------------------

    def start(self, id: str, steps: tuple[str, ...], delay: int) -> str:
        """Begin a workflow; its id."""
        found: str = self._do(lambda: self._engine.start(program(list(steps), []), id=id, delay=delay)).id
        return found

    def send(self, what: tuple[str, str, int], to: str | None, event_id: str | None, *, early: bool) -> Any:
        """Send an event: name, key and payload."""
        name, key, payload = what
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
        """How a workflow stands."""
        found = self._engine.query_status(id)
        return None if found is None else found.value

    def list(self, status: str, after: str | None) -> list[str]:
        """The ids of the workflows with this status, newest first."""
        return [one.id for one in self._engine.runs.list(status=WorkflowStatus(status), after=after)]

    def count(self, status: str) -> int:
        """How many have this status."""
        return self._engine.runs.count(status=WorkflowStatus(status))

    def replay(self, payload: int, to: str | None) -> Any:
        """Send the dead letter with this payload again."""
        return self._do(lambda: self._engine.dead_letters.replay(self._letter(payload), to))

    def remove(self, payload: int) -> None:
        """Forget the dead letter with this payload."""
        self._engine.dead_letters.remove(self._letter(payload))

    def _letter(self, payload: int) -> int:
        return next((one.id for one in self._engine.dead_letters.list() if one.payload == payload), 0)

    def purge(self, seconds: int) -> int:
        """Remove what ended long ago."""
        return self._engine.runs.purge(seconds)

    # --- what happens to it ---------------------------------------------------------------------------------------

    def advance(self, seconds: int) -> None:
        """Time passes."""
        self._clock.advance(seconds)
        self._settle()

    def restart(self, *, clean: bool, downtime: int) -> None:
        """The engine is shut down and opened again; how it ends without a word is shown elsewhere."""
        self._engine.__exit__(None, None, None)
        self._clock.advance(downtime)
        self._open()

    def evict(self) -> None:
        """That is not for users to say."""

    # --- what it looks like ---------------------------------------------------------------------------------------

    def describe(self, id: str) -> dict[str, Any]:
        """What a workflow waits for."""
        found = self._engine.runs.describe(id)
        return {
            "waits": sorted((one.kind, one.name, one.attempt) for one in found.waits),
            "mail": found.pending_events,
            "cancelled": found.cancel_requested,
            "round": found.round,
        }

    def picture(self) -> dict[str, Any]:
        """What users can see of all workflows and letters."""
        flows = {}
        for one in self._engine.runs.list(limit=1000):
            result = self._engine.query_result(one.id)
            text = None if result is None else json.dumps(result, separators=(",", ":"))
            wake_at = None if one.wake_at is None else round(one.wake_at.timestamp() * 1_000_000)
            flows[one.id] = (one.status.value, text, wake_at)
        letters = self._engine.dead_letters.list()
        return {
            "flows": flows,
            "letters": [(one.name, one.event_key, one.workflow_id, one.payload_json) for one in letters],
        }

    def close(self) -> None:
        """Shut down, and remove the file."""
        self._engine.__exit__(None, None, None)
        self._folder.cleanup()
