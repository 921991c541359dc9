"""Planted bugs: spawned children, published progress, and watchers."""

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


@bug("I20", "I29", seed=3)
def absent_spawner_not_woken(planter: Planter) -> None:
    """The end of a spawned child wakes a waiting parent that is not in memory."""
    wake = children.wake_parent

    def wake_parent(turn: Turn, record: WorkflowRecord) -> None:
        if record.on_parent_close is None or record.parent_key in turn.state.loaded:
            wake(turn, record)

    planter.replace(children, wake_parent)


@bug("I20", seed=1)
def spawner_woken_in_another_commit(planter: Planter) -> None:
    """The end of a spawned child and the wake-up of its parent are one commit: no crash comes between them."""
    wake = children.wake_parent

    def wake_parent(turn: Turn, record: WorkflowRecord) -> None:
        aside = turn if record.on_parent_close is None else attrs.evolve(turn, messages=Messages())
        wake(aside, record)
        for look in aside.messages.take(LookAgain) if aside is not turn else ():
            turn.effects.append(Follow(ResumeWorkflow(look.key)))

    planter.replace(children, wake_parent)


@bug("I6", "I20", "I29", seed=1)
def wait_for_a_child_not_noted(planter: Planter) -> None:
    """A wait for the end of a spawned child is stored, so that the end finds it."""
    note = wait_rows.register

    def register(turn: Turn, loaded: Loaded, position: str, *, name: str, event_key: str, **more: Any) -> None:
        if name != END:
            note(turn, loaded, position, name=name, event_key=event_key, **more)

    planter.replace(wait_rows, register)


@bug("I6", "I7", "I18", "I20", seed=17)
def wait_for_a_child_outlives_its_branch(planter: Planter) -> None:
    """A wait for a child is forgotten when its branch is withdrawn."""
    planter.change_row(WAIT_KINDS, EntryKind.RESULT, withdrawn=None)


@bug("I20", seed=3)
def result_told_before_the_end(planter: Planter) -> None:
    """The result of a spawned child is how the child ended."""

    def check_result(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
        body.feed(turn, loaded, wait, EntryStatus.OK, "[]")

    planter.replace(children, check_result)


# --- the end of a parent --------------------------------------------------------------------------------------------


@bug("I20", seed=4)
def tied_child_goes_on(planter: Planter) -> None:
    """A tied child is cancelled when its parent ends."""

    def close_children(turn: Turn, message: WorkflowEnded) -> None:
        pass

    planter.replace(children, close_children)


@bug("I20", seed=4)
def tied_child_of_an_earlier_round_goes_on(planter: Planter) -> None:
    """A tied child that was spawned in an earlier round is cancelled when its parent ends."""
    close = children.close_children

    def close_children(turn: Turn, message: WorkflowEnded) -> None:
        if message.record.round == 0:
            close(turn, message)

    planter.replace(children, close_children)


@bug("I20", seed=34)
def child_of_this_batch_goes_on(planter: Planter) -> None:
    """A tied child is cancelled when its parent ends in the commit that spawned it."""

    def living_children(state: State, parent_key: int) -> list[WorkflowRecord]:
        return list(state.backend.find(Children(parent_key)))

    planter.replace(family, living_children)


@bug("I21", seed=3)
def kept_child_cancelled(planter: Planter) -> None:
    """A child that was spawned to be kept continues after its parent has ended."""
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


@bug("I21", seed=5)
def cancel_of_a_child_answered_and_not_done(planter: Planter) -> None:
    """If `child.cancel()` returns True, the child is being cancelled."""

    def check_cancel_child(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
        body.feed(turn, loaded, wait, EntryStatus.OK, "true")

    planter.replace(children, check_cancel_child)


@bug("I20", seed=1)
def spawned_without_a_start(planter: Planter) -> None:
    """The start of a spawned child is committed with the step that spawns it."""

    def check_spawn(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
        body.feed(turn, loaded, wait, EntryStatus.OK, '"nobody"')

    planter.replace(children, check_spawn)


# --- progress -------------------------------------------------------------------------------------------------------


@bug("I32", seed=1)
def progress_published_again_by_replay(planter: Planter) -> None:
    """A rebuilt body does not publish old progress again."""

    def forget_known(turn: Turn, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
        pass

    planter.replace(published, forget_known)


@bug("I32", seed=1)
def progress_older_after_a_restart(planter: Planter) -> None:
    """The progress that readers see never goes backwards."""

    def forget_known(turn: Turn, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
        shown = turn.state.chronicle.progress_of(record.key)
        if session.published is not None and shown is not None:
            # Its number is the newest, but its value is from long ago.
            session.published = (shown.seq + 1, '[0,0,"begin"]')

    planter.replace(published, forget_known)


@bug("I32", seed=3)
def progress_of_a_first_step_lost(planter: Planter) -> None:
    """What a body publishes in its first step is stored, even if that step runs after a delay or in a new round."""

    def forget_known(turn: Turn, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
        session.published = None

    planter.replace(published, forget_known)


@bug("I32", seed=1)
def progress_one_step_behind(planter: Planter) -> None:
    """Progress is stored in the commit of its step."""
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


@bug("I5", "I29", seed=2)
def watcher_not_told(planter: Planter) -> None:
    """A watcher is told when its workflow changes."""
    see = Observers.look

    def look(self: Observers[Envelope], turn: Turn) -> list[tuple[int, Envelope]]:
        return [(key, watcher) for key, watcher in see(self, turn) if key in self._fresh]

    planter.replace(Observers, look)


@bug("I5", "I6", seed=1)
def watcher_told_before_the_commit(planter: Planter) -> None:
    """A watcher sees only what is stored."""
    commit = WorkflowStateCoordinator._commit

    def _commit(self: WorkflowStateCoordinator) -> None:
        turn = new_turn(self.state, self._clock.now())
        changed = self._observers.take(self._observers.look(turn))
        if changed:
            self._release(Release(changed))
        commit(self)

    def take(self: Observers[Envelope], changed: list[tuple[int, Envelope]]) -> list[Envelope]:
        return give(self, [(key, watcher) for key, watcher in changed if watcher in self._waiting.get(key, ())])

    give = Observers.take
    planter.replace(Observers, take)
    planter.replace(WorkflowStateCoordinator, _commit)


@bug("I5", seed=1)
def watcher_told_of_what_was(planter: Planter) -> None:
    """A watcher sees the workflow as it is after the commit, not as it was before."""
    see = Observers.look
    last: dict[int, Any] = {}

    def look(self: Observers[Envelope], turn: Turn) -> list[tuple[int, Envelope]]:
        changed = see(self, turn)
        for key, watcher in changed:
            watcher.reply, last[key] = last.get(key, watcher.reply), watcher.reply
        return changed

    planter.replace(Observers, look)
