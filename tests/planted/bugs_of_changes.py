"""Planted bugs: code that changes under running workflows. What `patched` answered, and what `removed` skips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from durable.engine.decide import body
from durable.engine.decide.turn import Turn
from durable.engine.state import beginnings
from durable.engine.state.bodies import Loaded
from durable.engine.state.state import State
from durable.model.begun import Begun, begun
from durable.model.records import EntryKind, HistoryEntry, WorkflowRecord
from durable.runner import changes
from durable.runner.ambient import Ambient, ambient
from durable.runner.changes import Removed
from durable.runner.fibers import WaitCondition
from durable.runner.interpreter import Interpreter
from durable.runner.ops import Leaf, Outcome, Returned
from durable.runner.past import Past
from tests.planted.planting import Planter, bug

# --- patched --------------------------------------------------------------------------------------------------------


@bug("I25", "I5", "I24", seed=2)
def answer_not_recorded(planter: Planter) -> None:
    """The answer of `patched` holds for the whole run, even after a restart."""
    look_after = body._look_after_history

    def _look_after_history(turn: Turn, loaded: Loaded) -> None:
        loaded.session.answers = ()
        look_after(turn, loaded)

    planter.replace(body, _look_after_history)


@bug("I25", "I5", "I24", seed=24)
def answered_yes_on_replay(planter: Planter) -> None:
    """A run that was under way when the code changed keeps to the old code."""

    def patched(change_id: str) -> bool:
        session = ambient("patched")
        answer = session.past.patches.get(change_id)
        if answer is None:
            answer = True
            changes.record_answer(session, change_id, answer)
        return answer

    planter.replace(changes, patched)


@bug("I34", seed=6)
def answered_no_by_a_new_run(planter: Planter) -> None:
    """A run that began with the new code takes the new path."""

    def patched(change_id: str) -> bool:
        session = ambient("patched")
        answer = session.past.patches.get(change_id)
        if answer is None:
            answer = False
            changes.record_answer(session, change_id, answer)
        return answer

    planter.replace(changes, patched)


@bug("I34", "I5", seed=2)
def answered_anew_each_time(planter: Planter) -> None:
    """`patched` records its first answer only, however often it is asked."""

    def patched(change_id: str) -> bool:
        session = ambient("patched")
        answer = session.past.patches.get(change_id, session.is_live)
        session.answers += ((change_id, answer),)
        return answer

    planter.replace(changes, patched)


@bug("I25", "I5", "I24", "I34", seed=2)
def answers_of_rebuilt_bodies_turned_round(planter: Planter) -> None:
    """A rebuilt body sees the answers that were recorded."""
    look_up = Past._look_up

    def _look_up(self: Past, aside: Sequence[HistoryEntry]) -> None:
        look_up(self, aside)
        self.patches = dict.fromkeys(self.patches, False)

    planter.replace(Past, _look_up)


@bug("I24", "I9", "I25", seed=1944)
def round_under_way_taken_for_new(planter: Planter) -> None:
    """A round that began with the old code keeps to it, even if nothing is recorded yet."""
    sound = beginnings.has_begun

    def has_begun(state: State, record: WorkflowRecord, history: Sequence[HistoryEntry] | None = None) -> bool:
        is_rebuilt = history is not None
        return sound(state, record, history) and not (is_rebuilt and not history and record.round)

    planter.replace(beginnings, has_begun)


@bug("I34", seed=17)
def new_round_taken_for_old(planter: Planter) -> None:
    """A round, or a scheduled run, whose body begins with the new code takes the new path."""

    def has_begun(state: State, record: WorkflowRecord, history: Sequence[HistoryEntry] | None = None) -> bool:
        return begun(record, has_entries=bool(history)) is not Begun.NO

    planter.replace(beginnings, has_begun)


# --- removed --------------------------------------------------------------------------------------------------------


@bug("engine", seed=1)
def removed_step_waits_for_ever(planter: Planter) -> None:
    """`removed` returns at once if nothing is recorded for the removed step."""

    def prepare(self: Removed, wait: WaitCondition, session: Ambient) -> None:
        pass

    planter.replace(Removed, prepare)


@bug("I25", seed=8)
def record_of_a_removed_step_in_the_way(planter: Planter) -> None:
    """The record of a removed step is skipped."""

    def prepare(self: Removed, wait: WaitCondition, session: Ambient) -> Outcome:
        return Returned(None)

    planter.replace(Removed, prepare)


@bug("I25", seed=9)
def removed_group_passed_after_one_entry(planter: Planter) -> None:
    """Every entry of a removed group is skipped."""

    def last_at(self: Past, position: str) -> int | None:
        below = (
            entry for entry in self.entries if entry.position == position or entry.position.startswith(f"{position}.")
        )
        return next((entry.seq for entry in below), None)

    planter.replace(Past, last_at)


@bug("I24", "I25", "I8", "I9", seed=1)
def removed_step_takes_no_place(planter: Planter) -> None:
    """The steps after a removed one keep their positions."""
    take = Interpreter._take

    def _take(self: Interpreter, fiber: Any, op: object) -> Outcome | None:
        outcome = take(self, fiber, op)
        if isinstance(op, Leaf) and op.kind is EntryKind.REMOVED and outcome is not None:
            fiber.count -= 1
        return outcome

    planter.replace(Interpreter, _take)
