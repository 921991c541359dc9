"""A `Cluster`: one store in memory with several shards, and the coordinator of each, without threads or real time.

Nothing happens by itself: a test says which shard works next. So it can put two steps in either order, delay a letter,
or lose a coordinator between any two commits.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeVar

from durable.backends.base import LetterId, StoredLetter
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.engine import operations as ops
from durable.engine.config import EngineConfig
from durable.engine.coordinator.coordinator import Release, WorkflowStateCoordinator
from durable.engine.coordinator.inbox import Envelope
from durable.engine.operations.letters import read_message, write_message
from durable.engine.operations.messages import Message
from durable.errors import NonRetryable
from durable.model.codec import Codec
from durable.model.error_codec import pack_error
from durable.model.homes import event_home, schedule_home, workflow_home
from durable.model.records import WorkflowRecord, WorkflowStatus
from durable.model.registry import Registry
from durable.runner.definitions import WorkflowCall, WorkflowDef
from durable.runner.events import Event
from durable.testing.clock import ManualClock
from tests.engine.direct import call_of, event_of

A = TypeVar("A")
T = TypeVar("T")
_STEPS = 1_000


def id_at(shard: int, shards: int, prefix: str = "w") -> str:
    """An id whose home is this shard."""
    return next(id for id in (f"{prefix}{n}" for n in itertools.count()) if workflow_home(id, shards) == shard)


def key_at(name: str, shard: int, shards: int) -> str:
    """A key whose events of this name have their home in this shard."""
    return next(key for key in map(str, itertools.count()) if event_home(name, key, shards) == shard)


def schedule_at(shard: int, shards: int) -> str:
    """The name of a schedule whose home is this shard."""
    names = (f"s{n}" for n in itertools.count())
    return next(name for name in names if schedule_home(name, shards) == shard)


class Cluster:
    """All shards of a store, each with its coordinator."""

    def __init__(self, *workflows: WorkflowDef[Any, Any], shards: int = 2, config: EngineConfig | None = None) -> None:
        self.count = shards
        self.workflows: Sequence[WorkflowDef[Any, Any]] = workflows
        self.config = config or EngineConfig()
        self.clock = ManualClock()
        self.stores = MemoryStore.sharded(shards)
        self.coordinators: dict[int, WorkflowStateCoordinator] = {}
        self.running: list[ops.RunActivity] = []
        self._lives = itertools.count(1)
        for shard in range(shards):
            self.open(shard)

    # --- coordinators ---------------------------------------------------------------------------------------------

    def open(self, shard: int, *, workflows: Sequence[WorkflowDef[Any, Any]] | None = None) -> None:
        """Open a shard and recover it. Its previous owner is fenced."""
        coordinator = WorkflowStateCoordinator(
            MemoryBackend(self.stores[shard]),
            Registry(self.workflows if workflows is None else workflows),
            codec=Codec(),
            config=self.config,
            clock=self.clock,
            release=self._receive,
        )
        coordinator.open(f"life {next(self._lives)}")
        while coordinator.is_recovering:
            coordinator.work_off()
        self.coordinators[shard] = coordinator

    def kill(self, shard: int) -> None:
        """Kill the process of a shard, and do not replace it."""
        del self.coordinators[shard]

    def _receive(self, release: Release) -> None:
        self.running += [effect for effect in release.activities if isinstance(effect, ops.RunActivity)]
        for envelope in release.answered:
            envelope.wake()

    def work(self, shard: int) -> int:
        """Run one batch of a shard: its letters, then what is queued and due."""
        return self.coordinators[shard].work_off()

    def has_work(self, shard: int) -> bool:
        """Whether a shard has work now."""
        return self.coordinators[shard].has_work() or bool(self.inbox(shard))

    def settle(self, *shards: int) -> None:
        """Let all shards, or only these, work until they have nothing to do."""
        for _ in range(_STEPS):
            busy = [n for n in shards or sorted(self.coordinators) if self.has_work(n)]
            if not busy:
                return
            for shard in busy:
                self.work(shard)
        raise AssertionError(f"no rest after {_STEPS} rounds")

    def advance(self, seconds: float, *shards: int) -> None:
        """Let time pass, then settle. A timeout on an event may wait for one more look at the inbox."""
        for step in (seconds, 0.001):
            self.clock.advance(step)
            self.settle(*shards)

    # --- callers --------------------------------------------------------------------------------------------------

    def ask(self, operation: ops.Operation[A]) -> A:
        """Let the operation's own shard decide it. Returns its reply or raises its error."""
        home = operation.home(self.count) or 0
        answered: list[Envelope] = []
        envelope = Envelope(operation, lambda: answered.append(envelope))
        self.coordinators[home].submit(envelope)
        self.work(home)
        assert answered, "it is not answered yet"
        if envelope.error is not None:
            raise envelope.error
        reply: A = envelope.reply
        return reply

    def start(self, call: WorkflowCall[Any], id: str) -> WorkflowRecord:
        """Start a workflow."""
        return self.ask(call_of(call, id))

    def send(self, event: Event[T], payload: T, **more: Any) -> ops.Delivered | ops.Queued:
        """Send an event."""
        return self.ask(event_of(event, payload, **more))

    def cancel(self, id: str) -> bool:
        """Cancel a workflow."""
        return self.ask(ops.CancelWorkflow(id))

    def finish(self, id: str, value: Any = None) -> None:
        """Report that the activity of a workflow returned."""
        effect = next(effect for effect in self.running if effect.workflow_id == id)
        self.running.remove(effect)
        outcome, _ = effect.definition.coder(Codec()).result.pack(value)
        answer = ops.RecordActivity(effect.key, effect.round, effect.position, effect.attempt, outcome, value)
        home = workflow_home(id, self.count)
        self.coordinators[home].submit(answer)
        self.work(home)

    def fail(self, id: str) -> None:
        """Report that the activity of a workflow failed for good."""
        effect = next(effect for effect in self.running if effect.workflow_id == id)
        self.running.remove(effect)
        error = NonRetryable("broken")
        answer = ops.RecordActivity(effect.key, effect.round, effect.position, effect.attempt, pack_error(error))
        answer.error = error
        home = workflow_home(id, self.count)
        self.coordinators[home].submit(answer)
        self.work(home)

    def deliver(self, shard: int, message: Message) -> None:
        """Deliver a letter that no shard wrote, and handle it."""
        self.deliver_text(shard, write_message(message))

    def deliver_text(self, shard: int, text: str) -> None:
        """Deliver a letter in its stored form, and handle it."""
        letterbox = self.stores[shard].letterbox
        id = LetterId(letterbox.draw(), 0)
        letterbox.inbox(shard)[id] = StoredLetter(id, 1 - shard, text)
        self.work(shard)

    # --- what is stored -------------------------------------------------------------------------------------------

    def letters(self, shard: int) -> list[Message]:
        """The letters in the inbox of a shard."""
        return [read_message(letter.text) for letter in self.inbox(shard)]

    def inbox(self, shard: int) -> list[StoredLetter]:
        """The inbox of a shard in its stored form."""
        store = self.stores[shard]
        return list(store.letterbox.inbox(shard).values())

    def record(self, id: str) -> WorkflowRecord:
        """The stored record of a workflow."""
        store = self.stores[workflow_home(id, self.count)]
        return store.workflows[store.keys[id]]

    def exists(self, id: str) -> bool:
        """Whether a workflow is stored."""
        return id in self.stores[workflow_home(id, self.count)].keys

    def status(self, id: str) -> WorkflowStatus:
        """The status of a workflow."""
        return self.record(id).status

    def result(self, id: str) -> Any:
        """The result of a workflow that has succeeded."""
        record = self.record(id)
        assert record.status is WorkflowStatus.SUCCEEDED, (record.status, record.error, record.park_detail)
        return Codec().coder(Any, "result").unpack(record.result or "null")

    def pending(self) -> int:
        """How many events are pending in all shards."""
        return sum(len(store.events) for store in self.stores)

    def guests(self, shard: int) -> int:
        """How many waits of other shards are registered in a shard."""
        return sum(row.guest is not None for rows in self.stores[shard].waits.values() for row in rows.values())
