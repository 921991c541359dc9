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
    """A service on a store in memory; activities end when somebody says so."""

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
        """Begin a workflow; its id."""
        call = program(list(steps), [])
        call._used = True
        text = program.coder(CODEC).pack_arguments(call.args, call.kwargs)
        found: str = self._ask(
            ops.StartWorkflow(
                id=id, name=program.name, input=text, definition=program, delay=from_duration("delay", delay)
            )
        ).id
        return found

    def send(self, what: tuple[str, str, int], to: str | None, event_id: str | None, *, early: bool) -> Any:
        """Send an event: name, key and payload."""
        name, key, payload = what
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
        """How a workflow stands."""
        found = self._ask(ops.FindWorkflow(id))
        return None if found is None else str(found.status.value)

    def list(self, status: str, after: str | None) -> list[str]:
        """The ids of the workflows with this status, newest first."""
        query = Workflows(statuses=(WorkflowStatus(status),), newest_first=True, limit=_ALL)
        return [one.id for one in self._ask(ops.ListWorkflows(query, after))]

    def count(self, status: str) -> int:
        """How many have this status."""
        found: int = self._ask(ops.CountWorkflows(Workflows(statuses=(WorkflowStatus(status),), limit=1)))
        return found

    def replay(self, payload: int, to: str | None) -> Any:
        """Send the dead letter with this payload again."""
        return self._ask(ReplayLetter(self._letter(payload), to))

    def remove(self, payload: int) -> None:
        """Forget the dead letter with this payload."""
        self._ask(RemoveLetter(self._letter(payload)))

    def _letter(self, payload: int) -> int:
        letters = self.service.backend.inner.find(Letters(limit=_ALL))
        return next((letter.id for letter in letters if letter.payload == payload), 0)

    def purge(self, seconds: int) -> int:
        """Remove what ended long ago."""
        purged = 0
        while count := self._ask(ops.PurgeWorkflows(self.now() - seconds * SECOND)):
            purged += count
        return purged

    # --- what happens to it ---------------------------------------------------------------------------------------

    def advance(self, seconds: int) -> None:
        """Time passes."""
        self.service.wait(seconds)

    def restart(self, *, clean: bool, downtime: int) -> None:
        """The process ends, in order or not; the next one starts after a while."""
        if clean:
            self.service.coordinator.stop()
            self.service.coordinator.run()
        else:
            self.service.backend.close()
        self.service.clock.advance(downtime)
        self.service.boot()
        self.service.settle()

    def evict(self) -> None:
        """All bodies are let go of."""
        state = self.service.coordinator.state
        for key in list(state.loaded):
            state.unload(key)

    def answer(self, id: str, value: int | None) -> None:
        """The activity that runs for a workflow ends: with a value, or with an error."""
        name, effect = next((name, one) for name, one in self.service.running.items() if one.workflow_id == id)
        del self.service.running[name]
        self.service.answer(effect, value, None if value is not None else Broken(id))

    # --- what it looks like ---------------------------------------------------------------------------------------

    def describe(self, id: str) -> dict[str, Any]:
        """What a workflow waits for."""
        found = self._ask(ops.DescribeWorkflow(id))
        return {
            "waits": sorted((one.kind, one.name, one.attempt) for one in found.waits),
            "mail": found.pending_events,
            "cancelled": found.cancel_requested,
            "round": found.round,
        }

    def picture(self) -> dict[str, Any]:
        """Everything that the model knows as well."""
        store, now = self.store, self.now()
        ids = {key: one.id for key, one in store.workflows.items()}
        return {
            "flows": {one.id: (one.status.value, one.result, one.wake_at) for one in store.workflows.values()},
            "rounds": {one.id: one.round for one in store.workflows.values()},
            "pending": [
                (event.name, event.event_key, ids.get(event.target or 0), event.unstarted, event.payload)
                for event in store.events.values()
                if event.expires_at is None or event.expires_at > now
            ],
            "letters": [(one.name, one.event_key, one.workflow_id, one.payload_json) for one in store.letters.values()],
            "running": {(one.workflow_id, one.attempt) for one in self.service.running.values()},
            "ids": set(store.sent),
        }

    def close(self) -> None:
        """Nothing is left behind."""
