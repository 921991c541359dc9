"""The real engine without its threads, behind the verbs of the public API."""

from __future__ import annotations

from typing import Any

from durable import DeadLetterPolicy, DurableError, EngineConfig
from durable.backends.base import Letters, Workflows
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.engine import operations as ops
from durable.engine.operations import RemoveLetter, ReplayLetter
from durable.model.clock import SECOND, from_duration
from durable.model.records import WorkflowStatus
from durable.testing.faults import FaultyBackend
from tests.exhaustive.service import CODEC, Service
from tests.statemachine.program import EVENTS, Broken, program

_ALL = 1_000


class Direct:
    """A service on a store in memory. Its activities end when the test says so."""

    has_activities = True

    def __init__(self, *, limit: int, policy: DeadLetterPolicy, loaded: int) -> None:
        self.store = MemoryStore()
        config = EngineConfig(max_pending_events=limit, dead_letter_policy=policy, max_loaded_workflows=loaded)
        self.service = Service(FaultyBackend(MemoryBackend(self.store)), [program], config=config)
        self.now = self.service.clock.now

    def _ask(self, operation: ops.Operation[Any]) -> Any:
        answer = self.service.ask(operation)
        if isinstance(answer, DurableError):
            raise answer
        return answer

    # --- the verbs ------------------------------------------------------------------------------------------------

    def start(self, id: str, steps: tuple[str, ...], delay: int) -> str:
        """Start a workflow. Returns its id."""
        call = program(list(steps), [])
        call._used = True
        text = program.coder(CODEC).pack_arguments(call.args, call.kwargs)
        workflow_id: str = self._ask(
            ops.StartWorkflow(
                id=id, name=program.name, input=text, definition=program, delay=from_duration("delay", delay)
            )
        ).id
        return workflow_id

    def send(self, content: tuple[str, str, int], to: str | None, event_id: str | None, *, early: bool) -> Any:
        """Send an event: name, key and payload."""
        name, key, payload = content
        event = EVENTS[name]
        return self._ask(
            ops.SendEvent(
                name=name,
                event_key=key,
                payload=str(payload),
                to=to,
                allow_unstarted=early,
                consume=event.consume_on_read,
                expire_after=event.expire_after_us,
                event_id=event_id,
            )
        )

    def cancel(self, id: str) -> bool:
        """Cancel a workflow."""
        accepted: bool = self._ask(ops.CancelWorkflow(id))
        return accepted

    def terminate(self, id: str) -> bool:
        """End a workflow at once."""
        accepted: bool = self._ask(ops.TerminateWorkflow(id))
        return accepted

    def status(self, id: str) -> str | None:
        """The status of a workflow."""
        record = self._ask(ops.FindWorkflow(id))
        return None if record is None else str(record.status.value)

    def list(self, status: str, after: str | None) -> list[str]:
        """The ids of the workflows with this status, newest first."""
        query = Workflows(statuses=(WorkflowStatus(status),), newest_first=True, limit=_ALL)
        return [record.id for record in self._ask(ops.ListWorkflows(query, after))]

    def count(self, status: str) -> int:
        """How many workflows have this status."""
        count: int = self._ask(ops.CountWorkflows(Workflows(statuses=(WorkflowStatus(status),), limit=1)))
        return count

    def replay(self, payload: int, to: str | None) -> Any:
        """Send the dead letter with this payload again."""
        return self._ask(ReplayLetter(self._letter(payload), to))

    def remove(self, payload: int) -> None:
        """Remove the dead letter with this payload."""
        self._ask(RemoveLetter(self._letter(payload)))

    def _letter(self, payload: int) -> int:
        letters = self.service.backend.inner.find(Letters(limit=_ALL))
        return next((letter.id for letter in letters if letter.payload == payload), 0)

    def purge(self, seconds: int) -> int:
        """Remove workflows that ended long ago."""
        purged = 0
        while count := self._ask(ops.PurgeWorkflows(self.now() - seconds * SECOND)):
            purged += count
        return purged

    # --- what happens --------------------------------------------------------------------------------------------

    def advance(self, seconds: int) -> None:
        """Let time pass."""
        self.service.wait(seconds)

    def restart(self, *, clean: bool, downtime: int) -> None:
        """The process ends, cleanly or not, and the next one starts after a while."""
        if clean:
            self.service.coordinator.stop()
            self.service.coordinator.run()
        else:
            self.service.backend.close()
        self.service.clock.advance(downtime)
        self.service.boot()
        self.service.settle()

    def evict(self) -> None:
        """Evict all bodies."""
        state = self.service.coordinator.state
        for key in list(state.loaded):
            state.unload(key)

    def answer(self, id: str, value: int | None) -> None:
        """The running activity of a workflow ends, with a value or an error."""
        name, effect = next(
            (name, running) for name, running in self.service.running.items() if running.workflow_id == id
        )
        del self.service.running[name]
        self.service.answer(effect, value, None if value is not None else Broken(id))

    # --- what is visible ------------------------------------------------------------------------------------------

    def describe(self, id: str) -> dict[str, Any]:
        """What a workflow waits for."""
        description = self._ask(ops.DescribeWorkflow(id))
        return {
            "waits": sorted((wait.kind, wait.name, wait.attempt) for wait in description.waits),
            "mail": description.pending_events,
            "cancelled": description.cancel_requested,
            "round": description.round,
        }

    def picture(self) -> dict[str, Any]:
        """Everything that the model knows too."""
        store, now = self.store, self.now()
        ids = {key: record.id for key, record in store.workflows.items()}
        return {
            "flows": {
                record.id: (record.status.value, record.result, record.wake_at) for record in store.workflows.values()
            },
            "rounds": {record.id: record.round for record in store.workflows.values()},
            "pending": [
                (event.name, event.event_key, ids.get(event.target or 0), event.unstarted, event.payload)
                for event in store.events.values()
                if event.expires_at is None or event.expires_at > now
            ],
            "letters": [
                (letter.name, letter.event_key, letter.workflow_id, letter.payload_json)
                for letter in store.letters.values()
            ],
            "running": {(effect.workflow_id, effect.attempt) for effect in self.service.running.values()},
            "ids": set(store.sent),
        }

    def close(self) -> None:
        """Clean up."""
