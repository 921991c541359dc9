"""Planted bugs: effects that leave too early, failed commits, restarts, crash counts, timers, memory."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import attrs

from durable.backends.base import MARK_CELLS, Batch
from durable.backends.memory import MemoryStore
from durable.engine.coordinator.callers import Observers, Watchers
from durable.engine.coordinator.coordinator import Release, WorkflowStateCoordinator
from durable.engine.coordinator.inbox import Envelope
from durable.engine.decide import body, recovery
from durable.engine.decide.turn import Turn
from durable.engine.operations import Effect, Ended
from durable.engine.operations.views import RecoveryReport
from durable.engine.state.bodies import Loaded
from durable.engine.state.state import State
from durable.engine.state.timers import TimerWindow
from durable.engine.state.trials import Trials
from durable.errors import StorageUnavailable
from durable.model.records import HistoryEntry, WorkflowRecord
from durable.model.timers import Timer
from tests.planted.planting import Planter, bug

# --- commit, then release -------------------------------------------------------------------------------------------


@bug("I6")
def released_before_the_commit(planter: Planter) -> None:
    """Nothing leaves before the commit."""
    decide_and_release = WorkflowStateCoordinator.process
    commit = WorkflowStateCoordinator._commit

    def process(self: WorkflowStateCoordinator, items: list[Any]) -> None:
        decide_and_release(self, items)
        commit(self)

    def _commit(self: WorkflowStateCoordinator) -> None:
        pass

    planter.replace(WorkflowStateCoordinator, process)
    planter.replace(WorkflowStateCoordinator, _commit)


@bug("I6")
def acknowledged_before_the_commit(planter: Planter) -> None:
    """A caller learns only what is durable."""
    answer = WorkflowStateCoordinator._answer

    def _answer(self: WorkflowStateCoordinator, turn: Turn, envelope: Envelope, release: Release) -> None:
        answer(self, turn, envelope, release)
        self._release(Release(release.answered))
        release.answered = []

    planter.replace(WorkflowStateCoordinator, _answer)


@bug()
def committed_one_batch_behind(planter: Planter) -> None:
    """The batch that is released is the batch that was committed."""
    late: dict[WorkflowStateCoordinator, Batch] = {}

    def _commit(self: WorkflowStateCoordinator) -> None:
        if (batch := late.pop(self, None)) is not None:
            self._backend.commit(batch)
        if not self.state.batch.is_empty():
            self._batch_number += 1
            late[self] = self.state.seal(self._batch_number)
            self.state.next_batch()

    planter.replace(WorkflowStateCoordinator, _commit)


@bug("I15", seed=2)
def commit_repeated_blindly(planter: Planter) -> None:
    """A commit whose outcome is unknown is applied once: the batch number is read before the commit is repeated."""

    def _commit(self: WorkflowStateCoordinator) -> None:
        if self.state.batch.is_empty():
            self.state._evict()
            return
        self._batch_number += 1
        batch = self.state.seal(self._batch_number)
        for _ in range(14):
            try:
                self._backend.commit(batch)
            except StorageUnavailable:
                self._clock.sleep(0.02)
            else:
                self.state.next_batch()
                return
        raise StorageUnavailable("it stays broken")

    planter.replace(WorkflowStateCoordinator, _commit)


@bug(seed=1)
def failed_commit_released(planter: Planter) -> None:
    """A failed commit is repeated, and nothing is released before it succeeds."""

    def _commit(self: WorkflowStateCoordinator) -> None:
        if self.state.batch.is_empty():
            self.state._evict()
            return
        batch = self.state.seal(self._batch_number + 1)
        with contextlib.suppress(StorageUnavailable):
            self._backend.commit(batch)
        self._batch_number = self._backend.last_batch()
        self.state.next_batch()

    planter.replace(WorkflowStateCoordinator, _commit)


@bug()
def commit_torn(planter: Planter) -> None:
    """A commit is all or nothing. Here the store loses the new history of a batch that also keeps an event."""
    whole = MemoryStore.apply

    def apply(self: MemoryStore, batch: Batch) -> None:
        whole(self, attrs.evolve(batch, history=[]) if batch.events_put else batch)

    planter.replace(MemoryStore, apply)


@bug("I29", seed=2)
def callers_forgotten(planter: Planter) -> None:
    """A caller that waits for the end of a workflow is told of it."""

    forget = Watchers.forget_abandoned

    def forget_abandoned(self: Watchers[Any]) -> None:
        if isinstance(self, Observers):
            forget(self)
        else:
            self._waiting.clear()

    planter.replace(Watchers, forget_abandoned)


@bug("I29", seed=2)
def end_not_told(planter: Planter) -> None:
    """A caller is told of the end even if the workflow ends in the commit that decided the call."""
    apply = WorkflowStateCoordinator._apply

    def _apply(self: WorkflowStateCoordinator, effects: list[Effect], release: Release) -> None:
        apply(self, [effect for effect in effects if not (isinstance(effect, Ended) and effect.record.round)], release)

    planter.replace(WorkflowStateCoordinator, _apply)


@bug()
def serials_given_out_again(planter: Planter) -> None:
    """No serial is assigned twice, even after a restart."""
    whole = State.seal

    def seal(self: State, number: int) -> Batch:
        batch = whole(self, number)
        batch.serial = 0
        return batch

    planter.replace(State, seal)


# --- recovery -------------------------------------------------------------------------------------------------------


@bug("I22", "I29")
def recovery_skips_some(planter: Planter) -> None:
    """After a restart, every running workflow continues."""
    recover = recovery._recover

    def _recover(turn: Turn, record: WorkflowRecord) -> RecoveryReport:
        return RecoveryReport(resumed=1) if record.key % 7 == 0 else recover(turn, record)

    planter.replace(recovery, _recover)


@bug("I26")
def suspect_not_noted(planter: Planter) -> None:
    """After a crash, a workflow that runs an activity again is on trial."""

    def hold(self: Trials, key: int) -> bool:
        return False

    planter.replace(Trials, hold)


@bug("I26", seed=29)
def body_that_was_not_stored_never_found(planter: Planter) -> None:
    """A body that kills the process before its workflow is stored is stored first the next time, to be blamed."""
    blame = recovery._blame_body

    def _blame_body(turn: Turn, key: int, where: int, what: int) -> None:
        blame(turn, key, where, what)
        turn.state.trials.stores_first = False

    planter.replace(recovery, _blame_body)


@bug("I26")
def suspect_noted_in_memory_only(planter: Planter) -> None:
    """A trial is committed before its activity runs."""

    def admit(self: Trials, key: int) -> None:
        self.on_trial[key] = self.waiting.pop(key)

    planter.replace(Trials, admit)


@bug("I26")
def crash_taken_for_a_clean_stop(planter: Planter) -> None:
    """An engine knows that its predecessor crashed."""
    take = WorkflowStateCoordinator.open

    def open(self: WorkflowStateCoordinator, incarnation: str) -> None:
        take(self, incarnation)
        self.state.trials.is_on = False

    planter.replace(WorkflowStateCoordinator, open)


@bug("I26", seed=1)
def body_not_blamed(planter: Planter) -> None:
    """A workflow whose body kills the process again and again is parked."""

    def _blame_body(turn: Turn, key: int, where: int, what: int) -> None:
        pass

    planter.replace(recovery, _blame_body)


@bug("I26")
def body_not_marked(planter: Planter) -> None:
    """Every body that is fed is marked, whichever body ran before it."""

    def _feed(turn: Turn, loaded: Loaded, entry: HistoryEntry, value: Any) -> bool:
        marked, turn.state.mark = turn.state.mark, [0] * MARK_CELLS
        try:
            return feed(turn, loaded, entry, value)
        finally:
            turn.state.mark = marked

    feed = body._feed
    planter.replace(body, _feed)


@bug("I29", "I22", seed=1)
def suspects_never_admitted(planter: Planter) -> None:
    """A suspect that waits for its group runs in the end."""

    def hold_trials(turn: Turn) -> None:
        pass

    planter.replace(recovery, hold_trials)


# --- the window of timers -------------------------------------------------------------------------------------------


@bug("I29", "I23", seed=7)
def far_timers_forgotten(planter: Planter) -> None:
    """Timers beyond the window are read from the store when their deadline approaches."""

    def refill(self: TimerWindow, stored: Sequence[Timer]) -> None:
        self._timers.update(stored)
        self._horizon = None

    planter.replace(TimerWindow, refill)


@bug("I29", "I23", seed=7)
def timers_cut_off_lost(planter: Planter) -> None:
    """Timers cut off an overfull window lie beyond its horizon, so they are read again."""
    register = TimerWindow.register_timer

    def register_timer(self: TimerWindow, timer: Timer) -> None:
        horizon = self._horizon
        register(self, timer)
        self._horizon = horizon

    planter.replace(TimerWindow, register_timer)


# --- bodies in memory -----------------------------------------------------------------------------------------------


@bug("I28", seed=22)
def bodies_never_let_go(planter: Planter) -> None:
    """There are never more bodies in memory than the limit."""

    def _evict(self: State) -> None:
        pass

    planter.replace(State, _evict)


@bug("I10", "I22", "I29", seed=22)
def eviction_forgets_what_runs(planter: Planter) -> None:
    """An activity continues while its workflow is evicted, and does not run again."""
    close = State.unload

    def unload(self: State, key: int) -> None:
        close(self, key)
        self.in_flight.pop(key, None)

    planter.replace(State, unload)


@bug("I6", "I22", "I29", seed=22)
def eviction_ends_waits(planter: Planter) -> None:
    """An evicted workflow still waits for its events."""
    let_go = State._evict

    def _evict(self: State) -> None:
        bodies = list(self.loaded)
        let_go(self)
        for key in bodies:
            if key not in self.loaded:
                for position in self.waits.of(key):
                    self.waits.drop(key, position)

    planter.replace(State, _evict)
