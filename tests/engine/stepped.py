"""`SteppedEngine`: a coordinator without its thread, over a store that logs its commits and may fail."""

from __future__ import annotations

import functools
from typing import Any

import attrs

from durable.backends.base import Backend, Batch
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.engine.config import EngineConfig
from durable.engine.coordinator.coordinator import Release, WorkflowStateCoordinator
from durable.engine.coordinator.inbox import Envelope
from durable.engine.operations import Operation
from durable.engine.remote.receiving import receive_kept
from durable.model.codec import Codec
from durable.model.registry import Registry
from durable.testing.clock import ManualClock
from durable.testing.faults import FaultyBackend
from tests.engine.flows import EVERY


class Noting(FaultyBackend):
    """Writes every successful commit to a log that others write to as well."""

    def __init__(self, inner: Backend, log: list[str]) -> None:
        super().__init__(inner)
        self.log = log

    def commit(self, batch: Batch) -> None:
        super().commit(batch)
        self.log.append(f"commit {batch.number}")


@attrs.define(eq=False)
class SteppedEngine:
    """The coordinator and its surroundings."""

    config: EngineConfig = attrs.field(factory=EngineConfig)
    store: MemoryStore = attrs.field(factory=MemoryStore)
    log: list[str] = attrs.field(factory=list)
    released: list[Release] = attrs.field(factory=list)
    clock: ManualClock = attrs.field(factory=ManualClock)
    backend: Noting = attrs.field(init=False)
    coordinator: WorkflowStateCoordinator = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.backend = Noting(MemoryBackend(self.store), self.log)
        self.coordinator = WorkflowStateCoordinator(
            self.backend,
            Registry(EVERY),
            codec=Codec(),
            config=self.config,
            clock=self.clock,
            release=self._receive,
            receive=functools.partial(receive_kept, registry=Registry(EVERY), codec=Codec()),
        )
        self.coordinator.open("stepped")

    def settle(self) -> None:
        """Recover, and process everything that is queued or due."""
        while self.coordinator.work_off():
            pass

    def _receive(self, release: Release) -> None:
        self.released.append(release)
        self.log.append("release")
        for envelope in release.answered:
            envelope.wake()

    def letter(self, operation: Operation[Any], name: str = "caller") -> Envelope:
        """An operation with a waiting caller. The log says when the caller is woken."""
        return Envelope(operation, lambda: self.log.append(f"wake {name}"))

    def ask(self, *operations: Operation[Any]) -> list[Envelope]:
        """Process these operations in one batch."""
        envelopes = [self.letter(operation) for operation in operations]
        self.coordinator.process([*envelopes])
        return envelopes

    def run(self, *before: Envelope | None, behind: tuple[Envelope, ...] = ()) -> None:
        """Run the thread's main function here: some envelopes are queued before the stop, others behind it."""
        for envelope in before:
            if envelope is not None:
                self.coordinator.submit(envelope)
        self.coordinator.stop()
        for envelope in behind:
            self.coordinator.submit(envelope)
        self.coordinator.run()
