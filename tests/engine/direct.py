"""`DirectEngine`: the engine's decisions without thread, loop or real time. Rules are checked after every commit.

It does what the coordinator does (decide, commit, collect effects), but one step at a time and by hand. So a test can
put two operations into one batch, or a restart between any two commits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from durable.backends.base import (
    MARK_CELLS,
    Backend,
    Children,
    EventsFor,
    Letters,
    Mailbox,
    PendingCount,
    PendingEvents,
    Suspects,
    WaitsFor,
    WaitsOf,
    Workflows,
)
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.engine import operations as ops
from durable.engine.config import EngineConfig
from durable.engine.coordinator.decisions import WAIT_KINDS, decide_in
from durable.engine.decide.body import last_seq
from durable.engine.decide.queries import answer_list
from durable.engine.decide.recovery import begin_trials, hold_trials, trials_begun
from durable.engine.decide.turn import Turn
from durable.engine.operations.log_lines import Tell
from durable.engine.operations.views import RecoveryReport
from durable.engine.state.crashes import is_over
from durable.engine.state.state import State
from durable.errors import DurableError
from durable.model.clock import from_duration
from durable.model.codec import Codec
from durable.model.dead_letters import DeadLetter
from durable.model.error_codec import pack_error, unpack_error
from durable.model.records import DeliveryMode, EntryKind, EventWait, HistoryEntry, WorkflowRecord, WorkflowStatus
from durable.model.registry import Registry
from durable.runner.definitions import WorkflowCall, WorkflowDef
from durable.runner.events import Event, event_key
from durable.testing.clock import ManualClock

A = TypeVar("A")
T = TypeVar("T")
ALL = 1_000_000
_STEPS = 20_000


def call_of(call: WorkflowCall[Any], id: str, *, delay: float = 0, tags: tuple[str, ...] = ()) -> ops.StartWorkflow:
    """The operation that starts a workflow."""
    call._used = True
    definition = call.definition
    text = Codec().function(definition.fn, definition.label).pack_arguments(call.args, call.kwargs)
    return ops.StartWorkflow(
        id=id,
        name=definition.name,
        version=definition.version,
        input=text,
        definition=definition,
        delay=from_duration("delay", delay),
        tags=tags,
    )


def event_of(event: Event[T], payload: T, *, key: str | None = None, **more: Any) -> ops.SendEvent:
    """The operation that sends an event."""
    text, _ = Codec().coder(event.payload_type, event.label).pack(payload)
    return ops.SendEvent(
        name=event.name,
        event_key=event_key(key),
        payload=text,
        consume=event.consume_on_read,
        expire_after=event.expire_after_us,
        **more,
    )


def refusal(reply: object) -> tuple[object, ...]:
    """The class and the fields of an error, for comparisons."""
    assert isinstance(reply, DurableError), reply
    return (type(reply), *reply.args)


class DirectEngine:
    """State over a store, a clock that stands still, and the effects of all commits."""

    def __init__(
        self,
        *workflows: WorkflowDef[Any, Any],
        config: EngineConfig | None = None,
        make: Callable[[], Backend] | None = None,
        checks: bool = True,
    ) -> None:
        store = MemoryStore()
        self.make: Callable[[], Backend] = make or (lambda: MemoryBackend(store))
        self.config = config or EngineConfig()
        self.clock = ManualClock()
        self.codec = Codec()
        # The checks read the whole store after each commit: too slow for thousands of workflows.
        self.checks = checks
        self.effects: list[ops.Effect] = []
        self._starts = 0
        self._open(workflows)

    def _open(self, workflows: Sequence[WorkflowDef[Any, Any]]) -> None:
        self._starts += 1
        # Commits since the last restart.
        self.commits = 0
        self._names: set[str] = set()
        self._follow: deque[ops.Operation[Any]] = deque()
        self._running: dict[tuple[int, int, str], ops.RunActivity] = {}
        self.backend = self.make()
        opened = self.backend.open(f"incarnation {self._starts}")
        self.state = State(self.backend, Registry(workflows), self.codec, self.config)
        self.state.serial = opened.serial
        self.state.mark = opened.mark
        begin_trials(Turn(self.state, self.clock.now(), WAIT_KINDS), opened)
        self._commit()
        trials_begun(self.state)

    # --- operations -----------------------------------------------------------------------------------------------

    def do(self, op: ops.Operation[A]) -> A:
        """Decide and commit one operation. Returns its reply or raises its error."""
        (reply,) = self.batch(op)
        if isinstance(reply, DurableError):
            raise reply
        answer: A = reply
        return answer

    def two(self, first: ops.Operation[Any], second: ops.Operation[Any], *, together: bool) -> list[Any]:
        """Decide two operations, in one batch or in two. Returns their replies; an error is a reply."""
        return self.batch(first, second) if together else [*self.batch(first), *self.batch(second)]

    def batch(self, *operations: ops.Operation[Any]) -> list[Any]:
        """Decide some operations and commit them together. Returns their replies; an error is a reply."""
        now = self.clock.now()
        if len(operations) > 1:
            self.state.prefetch(operations)
        replies: list[Any] = []
        effects: list[ops.Effect] = []
        for op in operations:
            if isinstance(op, ops.SendEvent):
                self._names.add(op.name)
            turn = Turn(self.state, now, WAIT_KINDS)
            try:
                replies.append(None if op.is_list else decide_in(turn, op))
                effects += turn.effects
            except DurableError as error:
                replies.append(error)
        if self.state.trials.next() is not None:
            turn = Turn(self.state, now, WAIT_KINDS)
            hold_trials(turn)
            effects += turn.effects
        self.state.mark[0] = 0
        self._commit()
        self._leave(effects)
        return [self._list(op) if op.is_list else reply for op, reply in zip(operations, replies, strict=True)]

    def _list(self, op: ops.Operation[Any]) -> Any:
        try:
            return answer_list(self.backend, op, self.clock.now())
        except DurableError as error:
            return error

    def _commit(self) -> None:
        if not self.state.batch.is_empty():
            self.backend.commit(self.state.seal(self.commits + 1))
            self.commits += 1
        self.state.next_batch()
        if self.checks:
            self.check()

    def _leave(self, effects: list[ops.Effect]) -> None:
        self.effects += effects
        for effect in effects:
            if isinstance(effect, Tell):
                effect.write()
            elif isinstance(effect, ops.Follow):
                self._follow.append(effect.operation)
            elif isinstance(effect, ops.RunActivity):
                self._running[effect.key, effect.round, effect.position] = effect
                if effect.on_trial:
                    self._follow.append(ops.BeginAttempt(effect.key))
            elif isinstance(effect, ops.StopActivity):
                self._running.pop((effect.key, effect.round, effect.position), None)

    def settle(self) -> None:
        """Process everything that is due and every follow-up, each batch in its own commit."""
        for _ in range(_STEPS):
            due = self.state.take_due_timers(self.clock.now(), self.config.max_batch)
            following = list(self._follow)
            self._follow.clear()
            trial = self.state.trials.next()
            if not due and not following and (trial is None or not is_over(trial, self.clock.now())):
                return
            self.batch(*map(ops.when_due, due), *following)
        raise AssertionError(f"no rest after {_STEPS} batches")

    def advance(self, seconds: float) -> None:
        """Let time pass, and fire what is due."""
        self.clock.advance(seconds)
        self.settle()

    def restart(self, *workflows: WorkflowDef[Any, Any], clean: bool = True, recover: bool = True) -> RecoveryReport:
        """Lose all memory, and open the store again with these workflows. Returns the recovery's report."""
        if clean:
            self.state.batch.clean_stop = True
            self._commit()
        left = [self.state.mark[cell] for cell in range(MARK_CELLS)]
        for key in list(self.state.loaded):
            self.state.unload(key)
        # A dying process closes nothing.
        for cell, number in enumerate(left):
            self.state.mark[cell] = number
        self.backend.close()
        self._open(workflows)
        return self.recover() if recover else RecoveryReport()

    def recover(self) -> RecoveryReport:
        """Recover all pages, then process every follow-up."""
        report = self.do(ops.RecoverWorkflows())
        while report.next_after is not None:
            report += self.do(ops.RecoverWorkflows(report.next_after, report.until))
        self.settle()
        return report

    # --- short forms ----------------------------------------------------------------------------------------------

    def start(self, call: WorkflowCall[Any], id: str = "w", **more: Any) -> WorkflowRecord:
        """Start a workflow."""
        return self.do(call_of(call, id, **more))

    def send(self, event: Event[T], payload: T, **more: Any) -> ops.Delivered | ops.Queued:
        """Send an event."""
        return self.do(event_of(event, payload, **more))

    def cancel(self, id: str = "w", reason: str | None = None) -> bool:
        """Cancel a workflow."""
        return self.do(ops.CancelWorkflow(id, reason))

    @property
    def activities(self) -> list[ops.RunActivity]:
        """The activities that were handed out, and have neither ended nor been stopped."""
        return list(self._running.values())

    def answer(self, effect: ops.RunActivity, value: Any = None, error: BaseException | None = None) -> Any:
        """The operation that reports the end of an attempt."""
        coder = self.codec.function(effect.definition.fn, effect.definition.label)
        outcome = coder.result.pack(value)[0] if error is None else pack_error(error)
        return ops.RecordActivity(
            key=effect.key,
            round=effect.round,
            position=effect.position,
            attempt=effect.attempt,
            outcome=outcome,
            value=value,
            error=error,
            mends=effect.mends,
        )

    def finish(self, effect: ops.RunActivity, value: Any = None) -> None:
        """Report that an activity returned."""
        self._running.pop((effect.key, effect.round, effect.position), None)
        self.do(self.answer(effect, value))

    def fail(self, effect: ops.RunActivity, error: BaseException) -> None:
        """Report that an activity raised."""
        self._running.pop((effect.key, effect.round, effect.position), None)
        self.do(self.answer(effect, error=error))

    def record(self, id: str = "w") -> WorkflowRecord:
        """The stored record of a workflow."""
        record = self.backend.workflow(id)
        assert record is not None
        return record

    def status(self, id: str = "w") -> WorkflowStatus:
        """The status of a workflow."""
        return self.record(id).status

    def result(self, id: str = "w") -> Any:
        """The result of a workflow that has succeeded."""
        record = self.record(id)
        assert record.status is WorkflowStatus.SUCCEEDED, (record.status, record.error, record.park_detail)
        return self.codec.coder(Any, "result").unpack(record.result or "null")

    def error(self, id: str = "w") -> BaseException:
        """The error of a workflow that has failed."""
        text = self.record(id).error
        assert text is not None
        return unpack_error(text)

    def history(self, id: str = "w") -> list[HistoryEntry]:
        """The recorded history of a workflow."""
        return self.backend.history(self.record(id).key)

    def ids(self) -> list[str]:
        """The ids of all workflows, oldest first."""
        return [record.id for record in self.backend.find(Workflows(limit=ALL))]

    def suspects(self) -> list[tuple[int, int]]:
        """The keys of the workflows on trial, each with its crash count."""
        return list(self.backend.find(Suspects()))

    def letters(self) -> list[DeadLetter]:
        """All dead letters."""
        return list(self.backend.find(Letters(limit=ALL)))

    def pending(self, name: str) -> int:
        """How many events with this name are stored."""
        return len(self.backend.find(PendingEvents(name=name, limit=ALL)))

    def waits(self, id: str = "w") -> list[EventWait]:
        """The registered event waits of a workflow."""
        return list(self.backend.find(WaitsOf(workflow_key=self.record(id).key)))

    def rows(self) -> int:
        """How many rows the store has: workflows, entries, waits, letters, and events of the names sent so far."""
        stored = self.backend.find(Workflows(limit=ALL))
        per_workflow = (len(self.history(record.id)) + len(self.waits(record.id)) for record in stored)
        events = sum(map(self.pending, self._names))
        return len(stored) + sum(per_workflow) + len(self.letters()) + events

    # --- the rules ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """What must hold after every commit, whatever was decided."""
        for name in self._names:
            for taken in (False, True):
                stored = self.backend.count(PendingCount(name=name, taken=taken))
                assert self.state.post.pending_count(name, taken=taken) == stored, name
        for record in self.backend.find(Workflows(limit=ALL)):
            waits = self.backend.find(WaitsOf(workflow_key=record.key))
            mail = self.backend.find(Mailbox(target=record.key, limit=ALL))
            self._check_numbers(self.history(record.id))
            if record.status.is_terminal:
                tied = [child for child in self.backend.find(Children(record.key)) if not child.cancel_requested]
                assert not tied, "an ended workflow leaves children that end with it"
                waiting = self.backend.find(WaitsFor(name="", event_key=str(record.key), limit=ALL))
                parked = {self.backend.workflow_by_key(wait.workflow_key) for wait in waiting}
                assert all(parent and parent.status is WorkflowStatus.PARKED for parent in parked), (
                    "a parent was not told"
                )
                assert not waits, "an ended workflow waits"
                assert not mail, "an ended workflow has mail"
                assert record.key not in self.state.loaded
                assert record.key not in self.state.in_flight
                assert record.wake_at is None
            elif record.status is not WorkflowStatus.PARKED:
                self._check_waits(record, waits)
            else:
                assert record.key not in self.state.loaded
                assert record.wake_at is None
        self._check_loaded()

    def _check_numbers(self, history: Sequence[HistoryEntry]) -> None:
        """Entries are numbered without gaps, unless a loop trimmed some or a fork left out void ones."""
        numbers = [entry.seq for entry in history]
        if {EntryKind.LOOP, EntryKind.FORKED} & {entry.kind for entry in history}:
            assert numbers == sorted(set(numbers))
        else:
            assert numbers == [*range(1, len(numbers) + 1)]

    def _check_waits(self, record: WorkflowRecord, waits: Sequence[EventWait]) -> None:
        """A wait is never registered while a matching event is pending."""
        for wait in waits:
            after = {DeliveryMode.AFTER_CREATE: record.key, DeliveryMode.AFTER_WAIT: wait.serial}.get(wait.mode, 0)
            for target in (record.key, None):
                query = EventsFor(
                    name=wait.name, event_key=wait.event_key, target=target, after_serial=after, limit=ALL
                )
                for event in self.backend.find(query):
                    has_expired = event.expires_at is not None and event.expires_at <= self.clock.now()
                    assert has_expired or not event.consume, f"{record.id} waits for {wait.name}, which is pending"

    def _check_loaded(self) -> None:
        for key, loaded in self.state.loaded.items():
            record, session = loaded.record, loaded.session
            assert record == self.backend.workflow_by_key(key), "memory and store differ"
            assert loaded.seq == last_seq(self.backend.history(key))
            rows = {row.position: row for row in self.backend.find(WaitsOf(workflow_key=key))}
            assert loaded.rows == rows
            registered = (EntryKind.EVENT, EntryKind.PAUSE, EntryKind.RESULT)
            assert set(rows) == {p for p, wait in session.waits.items() if wait.kind in registered}
            mail = len(self.backend.find(Mailbox(target=key, limit=ALL)))
            assert loaded.mail in (None, mail), "the mailbox is miscounted"
            flights = self.state.in_flight.get(key, {})
            works = {p for p, wait in session.waits.items() if wait.kind is EntryKind.ACTIVITY}
            assert set(flights) <= works, "an activity in flight has no wait"
            assert all(flight[0] == record.round for flight in flights.values())
            assert (record.status is WorkflowStatus.RUNNING) == bool(works)
            assert record.wake_at == session.wake_at(flights)
