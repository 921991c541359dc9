"""Planted bugs: children that are spawned, what workflows publish, and who watches them."""

from __future__ import annotations

from typing import Any

import attrs

from durable.backends.base import Children
from durable.engine.coordinator.callers import Observers
from durable.engine.coordinator.coordinator import Release, WorkflowStateCoordinator
from durable.engine.coordinator.decisions import WAIT_KINDS, new_turn
from durable.engine.coordinator.inbox import Envelope
from durable.engine.decide import body, children, published, wait_rows
from durable.engine.decide import start as start_decisions
from durable.engine.decide.turn import Turn
from durable.engine.operations import Follow, ResumeWorkflow
from durable.engine.operations.messages import CancelChild, LookAgain, Messages, WorkflowEnded
from durable.engine.state import family
from durable.engine.state.bodies import Loaded
from durable.engine.state.state import State
from durable.engine.state.waits import END
from durable.model.records import CancelCause, EntryKind, EntryStatus, OnParentClose, Progress, WorkflowRecord
from durable.runner.fibers import WaitCondition
from durable.runner.results import SessionResult
from durable.runner.session import WorkflowSessionRunner
from tests.planted.planting import Planter, bug

# --- the end of a child ---------------------------------------------------------------------------------------------


@bug("I20", seed=1)
def spawner_not_woken(planter: Planter) -> None:
    """The end of a spawned child wakes a parent that waits for it."""
    wake = children.wake_parent

    def wake_parent(turn: Turn, record: WorkflowRecord) -> None:
        if record.on_parent_close is None:
            wake(turn, record)

    planter.replace(children, wake_parent)


@bug("I20", "I29", seed=1)
def absent_spawner_not_woken(planter: Planter) -> None:
    """The same, where the parent is not in memory."""
    wake = children.wake_parent

    def wake_parent(turn: Turn, record: WorkflowRecord) -> None:
        if record.on_parent_close is None or record.parent_key in turn.state.loaded:
            wake(turn, record)

    planter.replace(children, wake_parent)


@bug("I20", seed=1)
def spawner_woken_in_another_commit(planter: Planter) -> None:
    """A spawned child's end and the wake-up of its parent are one commit, and no crash comes between."""
    wake = children.wake_parent

    def wake_parent(turn: Turn, record: WorkflowRecord) -> None:
        aside = turn if record.on_parent_close is None else attrs.evolve(turn, messages=Messages())
        wake(aside, record)
        for look in aside.messages.take(LookAgain) if aside is not turn else ():
            turn.effects.append(Follow(ResumeWorkflow(look.key)))

    planter.replace(children, wake_parent)


@bug("I6", "I20", "I29", seed=1)
def wait_for_a_child_not_noted(planter: Planter) -> None:
    """Who waits for the end of a spawned child is noted durably, so that its end finds the wait."""
    note = wait_rows.register

    def register(turn: Turn, loaded: Loaded, position: str, *, name: str, event_key: str, **more: Any) -> None:
        if name != END:
            note(turn, loaded, position, name=name, event_key=event_key, **more)

    planter.replace(wait_rows, register)


@bug("I6", "I7", "I18", "I20", seed=1)
def wait_for_a_child_outlives_its_branch(planter: Planter) -> None:
    """A wait for a child that is given up is forgotten."""
    planter.change_row(WAIT_KINDS, EntryKind.RESULT, withdrawn=None)


@bug("I20", seed=3)
def result_told_before_the_end(planter: Planter) -> None:
    """The result of a spawned child is how it ended."""

    def check_result(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
        body.feed(turn, loaded, wait, EntryStatus.OK, "[]")

    planter.replace(children, check_result)


# --- the end of a parent --------------------------------------------------------------------------------------------


@bug("I20", seed=1)
def tied_child_goes_on(planter: Planter) -> None:
    """A child that was spawned to end with its parent is cancelled when the parent ends."""

    def close_children(turn: Turn, message: WorkflowEnded) -> None:
        pass

    planter.replace(children, close_children)


@bug("I20", seed=1)
def tied_child_of_an_earlier_round_goes_on(planter: Planter) -> None:
    """The same, where it was spawned in an earlier round."""
    close = children.close_children

    def close_children(turn: Turn, message: WorkflowEnded) -> None:
        if message.record.round == 0:
            close(turn, message)

    planter.replace(children, close_children)


@bug("I20", seed=20)
def child_of_this_batch_goes_on(planter: Planter) -> None:
    """The same, where the child was spawned in the same commit."""

    def living_children(state: State, parent_key: int) -> list[WorkflowRecord]:
        return list(state.backend.find(Children(parent_key)))

    planter.replace(family, living_children)


@bug("I21", seed=1)
def kept_child_cancelled(planter: Planter) -> None:
    """A child that was spawned to be kept goes on when its parent has ended."""
    start = start_decisions.register_workflow

    def close_children(turn: Turn, message: WorkflowEnded) -> None:
        record = message.record
        for id in kept.get(record.key, ()):
            child = turn.state.find(id)
            if child is not None:
                turn.messages.send(CancelChild(id, record.key, record.id, child.parent_place, CancelCause.PARENT_ENDED))
        close(turn, message)

    def register_workflow(*args: Any, **more: Any) -> WorkflowRecord:
        record = start(*args, **more)
        if record.on_parent_close is OnParentClose.KEEP and record.parent_key is not None:
            kept.setdefault(record.parent_key, []).append(record.id)
        return record

    close = children.close_children
    kept: dict[int, list[str]] = {}
    planter.replace(children, close_children)
    planter.replace(start_decisions, register_workflow)


@bug("I21", seed=1)
def cancel_of_a_child_answered_and_not_done(planter: Planter) -> None:
    """A parent that is told that its child is being cancelled is told the truth."""

    def check_cancel_child(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
        body.feed(turn, loaded, wait, EntryStatus.OK, "true")

    planter.replace(children, check_cancel_child)


@bug("I20", seed=1)
def spawned_without_a_start(planter: Planter) -> None:
    """The start of a spawned child is durable with the step that spawns it."""

    def check_spawn(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
        body.feed(turn, loaded, wait, EntryStatus.OK, '"nobody"')

    planter.replace(children, check_spawn)


# --- progress -------------------------------------------------------------------------------------------------------


@bug("I32", seed=1)
def progress_published_again_by_replay(planter: Planter) -> None:
    """A body that is rebuilt does not publish again what it has passed."""

    def forget_known(turn: Turn, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
        pass

    planter.replace(published, forget_known)


@bug("I32", seed=1)
def progress_older_after_a_restart(planter: Planter) -> None:
    """What is shown of a workflow is never older than what was shown before."""

    def forget_known(turn: Turn, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
        known = turn.state.chronicle.progress_of(record.key)
        if session.published is not None and known is not None:
            # As new as can be by its number, and yet the value of long ago.
            session.published = (known.seq + 1, '[0,0,"begin"]')

    planter.replace(published, forget_known)


@bug("I32", seed=1)
def progress_of_a_first_step_lost(planter: Planter) -> None:
    """What a body publishes in its first step is stored, also when that runs after a delay or in a new round."""

    def forget_known(turn: Turn, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
        session.published = None

    planter.replace(published, forget_known)


@bug("I32", seed=1)
def progress_one_step_behind(planter: Planter) -> None:
    """Progress is stored with its step."""
    late: dict[int, Progress] = {}
    store = published.store_progress

    def store_progress(turn: Turn, loaded: Loaded, result: SessionResult) -> SessionResult:
        result = store(turn, loaded, result)
        key = loaded.record.key
        before, late[key] = late.get(key), turn.state.batch.progress_put.pop(key)
        if before is not None:
            turn.state.batch.progress_put[key] = before
        return result

    planter.replace(published, store_progress)


# --- watching -------------------------------------------------------------------------------------------------------


@bug("I5", "I29", seed=1)
def watcher_not_told(planter: Planter) -> None:
    """Who watches a workflow is told when it changes."""
    see = Observers.look

    def look(self: Observers[Envelope], turn: Turn) -> list[tuple[int, Envelope]]:
        return [(key, one) for key, one in see(self, turn) if key in self._fresh]

    planter.replace(Observers, look)


@bug("I5", "I6", seed=1)
def watcher_told_before_the_commit(planter: Planter) -> None:
    """Who watches is told of nothing that is not stored."""
    commit = WorkflowStateCoordinator._commit

    def _commit(self: WorkflowStateCoordinator) -> None:
        turn = new_turn(self.state, self._clock.now())
        told = self._observers.take(self._observers.look(turn))
        if told:
            self._release(Release(told))
        commit(self)

    def take(self: Observers[Envelope], told: list[tuple[int, Envelope]]) -> list[Envelope]:
        return give(self, [(key, one) for key, one in told if one in self._waiting.get(key, ())])

    give = Observers.take
    planter.replace(Observers, take)
    planter.replace(WorkflowStateCoordinator, _commit)


@bug("I5", seed=1)
def watcher_told_of_what_was(planter: Planter) -> None:
    """Who watches is told how the workflow stands after the commit, and not how it stood before."""
    see = Observers.look
    last: dict[int, Any] = {}

    def look(self: Observers[Envelope], turn: Turn) -> list[tuple[int, Envelope]]:
        told = see(self, turn)
        for key, one in told:
            one.reply, last[key] = last.get(key, one.reply), one.reply
        return told

    planter.replace(Observers, look)
