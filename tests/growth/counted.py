"""A coordinator in this thread over a real SQLite file, and a count of all the work that it makes.

What is counted does not depend on the machine: statements (`executemany` counts one a row), steps of SQLite's virtual
machine, commits, rows recorded, replays, and calls into the loop. Activities answer when the test says so.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs

from durable import Call, Durable, Event, WorkflowDef, activity, sleep, workflow
from durable.backends.base import Batch
from durable.backends.sqlite import SqliteBackend
from durable.engine.config import EngineConfig
from durable.engine.coordinator.coordinator import Release, WorkflowStateCoordinator
from durable.engine.coordinator.inbox import Envelope
from durable.engine.operations import Operation, RecordActivity, RunActivity, StartWorkflow
from durable.model.codec import Codec
from durable.model.records import HistoryEntry
from durable.model.registry import Registry
from durable.runner.definitions import WorkflowCall
from durable.testing.clock import ManualClock

go = Event[int]("growth.go")
# How exactly the steps of the virtual machine are counted.
_VM_STEPS = 10


@activity(name="growth.step")
async def step(number: int) -> int:
    """Answered by the test."""
    return number + 1


@workflow(name="growth.ten")
def ten(start: int) -> Durable[int]:
    """Ten steps in a row."""
    for _ in range(10):
        start = yield from step(start)
    return start


@workflow(name="growth.one")
def one_step(start: int) -> Durable[int]:
    """A single step."""
    return (yield from step(start))


@workflow(name="growth.waiter")
def waiter() -> Durable[int]:
    """Waits for an event."""
    return (yield from go.wait())


@workflow(name="growth.sleeper")
def sleeper() -> Durable[None]:
    """Sleeps for an hour."""
    yield from sleep(3600)


EVERY: list[WorkflowDef[..., Any]] = [ten, one_step, waiter, sleeper]


@attrs.define
class Work:
    """The counted work."""

    statements: Counter[str] = attrs.field(factory=Counter)
    vm_steps: int = 0
    commits: int = 0
    rows: int = 0
    replays: int = 0
    hand_overs: int = 0

    @property
    def total(self) -> int:
        """All statements."""
        return self.statements.total()


class CountingBackend(SqliteBackend):
    """Adds to the current `work`."""

    work = Work()

    def _connect(self, real: str) -> sqlite3.Connection:
        connection = super()._connect(real)
        connection.set_trace_callback(self._note)
        connection.set_progress_handler(self._step, _VM_STEPS)
        return connection

    def _note(self, sql: str) -> None:
        words = sql.split()
        place = words.index("FROM") + 1 if "FROM" in words else {"INSERT": 2, "UPDATE": 1}.get(words[0], 0)
        table = words[place].partition("(")[0]
        self.work.statements[" ".join(dict.fromkeys((words[0], table)))] += 1

    def _step(self) -> int:
        self.work.vm_steps += _VM_STEPS
        return 0

    def commit(self, batch: Batch) -> None:
        super().commit(batch)
        self.work.commits += 1
        self.work.rows += len(batch.workflows_new) + len(batch.workflows_changed) + len(batch.history)

    def history(self, key: int) -> list[HistoryEntry]:
        self.work.replays += 1
        return super().history(key)


@attrs.define(eq=False)
class Counted:
    """The coordinator, its clock, and the activities that it has handed out."""

    file: Path
    config: EngineConfig = attrs.field(factory=EngineConfig)
    clock: ManualClock = attrs.field(factory=ManualClock)
    running: list[RunActivity] = attrs.field(factory=list)
    backend: CountingBackend = attrs.field(init=False)
    coordinator: WorkflowStateCoordinator = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.backend = CountingBackend(self.file, synchronous="NORMAL")
        self.coordinator = WorkflowStateCoordinator(
            self.backend,
            Registry(EVERY),
            codec=Codec(),
            config=self.config,
            clock=self.clock,
            release=self._receive,
        )

    def _receive(self, release: Release) -> None:
        self.backend.work.hand_overs += 1
        self.running += [effect for effect in release.activities if isinstance(effect, RunActivity)]

    def open(self) -> Work:
        """Start; return the work of that."""
        work = self._begin()
        self.coordinator.open("counted")
        self._work_off()
        return work

    def close(self) -> None:
        """Stop cleanly."""
        self._begin()
        self.coordinator.stop()
        self.coordinator.run()

    def do(self, *operations: Operation[Any]) -> Work:
        """Handle some operations in one batch, and everything that follows or is due; return the work of that."""
        work = self._begin()
        for operation in operations:
            self.coordinator.submit(Envelope(operation, lambda: None))
        self._work_off()
        return work

    def start(self, calls: Iterable[Call[Any]], prefix: str = "w") -> Work:
        """Start some workflows at once."""
        return self.do(*(_start(call, f"{prefix}{number}") for number, call in enumerate(calls)))

    def answer(self) -> Work:
        """Answer all activities at once."""
        work = self._begin()
        running, self.running = deque(self.running), []
        while running:
            # Dropped with its answer, as in the loop.
            effect = running.popleft()
            value = effect.args[0] + 1
            self.coordinator.submit(
                RecordActivity(
                    key=effect.key,
                    round=effect.round,
                    position=effect.position,
                    attempt=effect.attempt,
                    outcome=str(value),
                    value=value,
                )
            )
        self._work_off()
        return work

    def _work_off(self) -> None:
        while self.coordinator.has_work():
            self.coordinator.work_off()

    def _begin(self) -> Work:
        self.backend.work = Work()
        return self.backend.work


def _start(call: Call[Any], id: str) -> StartWorkflow:
    assert isinstance(call, WorkflowCall)
    call._used = True
    definition = call.definition
    text = definition.coder(Codec()).pack_arguments(call.args, call.kwargs)
    return StartWorkflow(id=id, name=definition.name, input=text, definition=definition)
