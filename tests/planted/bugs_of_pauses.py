"""Planted bugs: pauses that are not listed or stay listed, and answers that are lost, duplicated or misdirected."""

from __future__ import annotations

import json
from typing import Any

from durable.engine.coordinator.decisions import WAIT_KINDS
from durable.engine.decide import body, lists, pauses
from durable.engine.decide.lists import Reading
from durable.engine.decide.turn import Turn
from durable.engine.operations import CancelPause, ListPauses, ResumePause
from durable.engine.state.bodies import Loaded
from durable.errors import DurableError, PauseAlreadyAnswered, PauseExpired
from durable.model.error_codec import pack_error
from durable.model.position import place
from durable.model.records import EntryKind, EntryStatus, EventWait, OpenPause, Question, WorkflowRecord
from durable.runner.fibers import WaitCondition
from durable.runner.pauses import PauseOp
from durable.runner.waits import Waits
from tests.planted.planting import Planter, bug


@bug("I6", "I29", seed=3)
def question_never_listed(planter: Planter) -> None:
    """A pause is listed in the commit in which its workflow begins to wait."""

    def check_pause(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
        pass

    planter.replace(pauses, check_pause)


@bug("I18", seed=3)
def only_one_pause_is_listed(planter: Planter) -> None:
    """Every open pause is listed."""
    list_all = lists.list_pauses

    def list_pauses(reading: Reading, op: ListPauses) -> list[OpenPause]:
        return list_all(reading, op)[:1]

    planter.replace(lists, list_pauses)


@bug("I18", seed=5)
def question_put_anew_when_it_is_loaded(planter: Planter) -> None:
    """A pause keeps its number and its opening time, however often its workflow is rebuilt."""
    check = pauses.check_pause

    def check_pause(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
        loaded.rows.pop(wait.position, None)
        check(turn, loaded, wait)

    planter.replace(pauses, check_pause)


@bug("I2", "I6", "I7", "I18", seed=3)
def loser_stays_listed(planter: Planter) -> None:
    """The pause of a losing branch is withdrawn."""
    planter.change_row(WAIT_KINDS, EntryKind.PAUSE, withdrawn=None)


@bug("I1", seed=3)
def answer_acknowledged_and_lost(planter: Planter) -> None:
    """An acknowledged answer is recorded."""
    decide = pauses.decide_resume_pause

    def decide_resume_pause(turn: Turn, op: ResumePause) -> Any:
        return None if json.loads(op.answer)[0] % 3 == 0 else decide(turn, op)

    planter.replace(pauses, decide_resume_pause)


@bug("I1", "I8", seed=5)
def second_answer_acknowledged(planter: Planter) -> None:
    """The first answer stands, and a second one is refused."""
    refuse = pauses._refusal

    def _refusal(turn: Turn, record: WorkflowRecord, pause_id: str) -> Any:
        refused = refuse(turn, record, pause_id)
        return None if isinstance(refused, PauseAlreadyAnswered) else refused

    def decide_resume_pause(turn: Turn, op: ResumePause) -> DurableError | None:
        open_pause: Any = pauses._find(turn, op.workflow_id, op.pause_id)
        if not isinstance(open_pause, tuple):
            refused: DurableError | None = open_pause
            return refused
        loaded, wait = open_pause
        body.feed(turn, loaded, wait, EntryStatus.OK, op.answer)
        return None

    planter.replace(pauses, _refusal)
    planter.replace(pauses, decide_resume_pause)


@bug("I12", seed=17)
def answer_for_another_pause(planter: Planter) -> None:
    """An answer goes to the pause it names."""
    find = pauses._find

    def _find(turn: Turn, workflow_id: str, pause_id: str) -> Any:
        record = turn.state.record(workflow_id)
        rows = turn.state.waits.of(record.key)
        asked = [row for row in rows.values() if row.question is not None]
        first = place(record.round, asked[0].position) if len(asked) > 1 else pause_id
        return find(turn, workflow_id, first)

    planter.replace(pauses, _find)


@bug("I5", "I12", seed=3)
def taken_back_taken_for_an_answer(planter: Planter) -> None:
    """A pause that was cancelled has no answer."""

    def decide_cancel_pause(turn: Turn, op: CancelPause) -> DurableError | None:
        open_pause = pauses._find(turn, op.workflow_id, op.pause_id)
        if isinstance(open_pause, DurableError):
            return open_pause
        loaded, wait = open_pause
        body.feed(turn, loaded, wait, EntryStatus.OK, "[0]")
        return None

    planter.replace(pauses, decide_cancel_pause)


@bug("I29", seed=3)
def expiry_forgotten(planter: Planter) -> None:
    """A pause that expires wakes its workflow, even if nothing else does."""
    begin = Waits.open

    def open(self: Waits, wait: WaitCondition) -> None:
        begin(self, wait)
        if wait.kind is EntryKind.PAUSE:
            self.timed.pop(wait.position, None)

    planter.replace(Waits, open)


@bug("I19")
def pause_expires_early(planter: Planter) -> None:
    """A pause expires at its listed deadline, not before."""

    def check_pause(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
        if wait.position not in loaded.rows:
            assert isinstance(wait.op, PauseOp)
            later = None if wait.deadline is None else wait.deadline + 60_000_000
            row = EventWait(
                workflow_key=loaded.record.key, position=wait.position, name="", serial=turn.state.next_serial(),
                since=turn.now, question=Question(wait.input, wait.op.expects, later),
            )  # fmt: skip
            loaded.rows[wait.position] = row
            turn.state.waits.put(row)

    planter.replace(pauses, check_pause)


@bug("I19", "I5", seed=3)
def cancelled_pause_has_expired(planter: Planter) -> None:
    """A cancelled pause raises `PauseCancelled` in the body, not `PauseExpired`."""

    def decide_cancel_pause(turn: Turn, op: CancelPause) -> DurableError | None:
        open_pause = pauses._find(turn, op.workflow_id, op.pause_id)
        if isinstance(open_pause, DurableError):
            return open_pause
        loaded, wait = open_pause
        body.feed(turn, loaded, wait, EntryStatus.ERROR, pack_error(PauseExpired(op.workflow_id, op.pause_id)))
        return None

    planter.replace(pauses, decide_cancel_pause)


@bug("I2", seed=3)
def refused_though_it_is_open(planter: Planter) -> None:
    """An open pause accepts its answer, even if its workflow is not in memory."""
    find = pauses._find

    def _find(turn: Turn, workflow_id: str, pause_id: str) -> Any:
        record = turn.state.record(workflow_id)
        if record.key not in turn.state.loaded:
            return pauses._refusal(turn, record, pause_id)
        return find(turn, workflow_id, pause_id)

    planter.replace(pauses, _find)
