"""A workflow pauses with a question to a person, and the pause ends with an answer, a cancel or its deadline.

The first outcome that is recorded counts. An answer that is decided before the deadline is handled is accepted, even if
the deadline has passed. An answer that is refused changes nothing: the pause stays open.
"""

from __future__ import annotations

from durable.engine.decide.body import feed, load
from durable.engine.decide.dry_run import Misfit, examined
from durable.engine.decide.endings import check_payload
from durable.engine.decide.turn import Turn
from durable.engine.operations import CancelPause, ResumePause
from durable.engine.state.crashes import mark_reading
from durable.engine.state.workflows import Loaded
from durable.errors import (
    CodecError,
    DurableError,
    PauseAlreadyAnswered,
    PauseCancelled,
    PauseExpired,
    PauseNotFound,
    PayloadTooLarge,
    WorkflowParked,
    WorkflowTerminated,
)
from durable.model.error_codec import pack_error, unpack_error
from durable.model.position import place
from durable.model.records import EntryKind, EntryStatus, EventWait, Question, WorkflowRecord, WorkflowStatus
from durable.model.shapes.own_types import read_own
from durable.runner.fibers import WaitCondition
from durable.runner.pauses import PauseOp
from durable.runner.session import WorkflowSessionRunner


def check_pause(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """A workflow has paused: store its question in a row, in the commit in which it begins to wait."""
    assert isinstance(wait.op, PauseOp)
    question = Question(wait.input, wait.op.expects, wait.deadline)
    before = loaded.rows.get(wait.position)
    if before is not None and before.question == question:
        return
    try:
        check_payload(turn, "pause: prompt", wait.input)
    except PayloadTooLarge as error:
        feed(turn, loaded, wait, EntryStatus.ERROR, pack_error(error))
        return
    row = EventWait(
        workflow_key=loaded.record.key,
        position=wait.position,
        name="",
        # Under new code the same pause may ask another question. It keeps its serial, and so its place in lists.
        serial=turn.state.next_serial() if before is None else before.serial,
        since=turn.now if before is None else before.since,
        question=question,
    )
    loaded.rows[wait.position] = row
    turn.state.waits.put(row)


def expire_pause(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """The deadline of a pause has passed: the body gets `PauseExpired`."""
    record = loaded.record
    error = PauseExpired(record.id, place(record.round, wait.position))
    feed(turn, loaded, wait, EntryStatus.ERROR, pack_error(error))


def _asked(turn: Turn, op: ResumePause) -> PauseOp[object] | DurableError:
    """The pause as the body has written it, or why it cannot be answered. Raises `WorkflowNotFound`.

    Changes nothing: a body that is not in memory is rebuilt in a dry run.
    """
    record = turn.state.record(op.workflow_id)
    row = _row(turn, record, op.pause_id)
    if row is None:
        return _refusal(turn, record, op.pause_id)
    if (loaded := turn.state.loaded.get(record.key)) is not None:
        pause = _pause_at(loaded.session, row.position)
    elif record.status is WorkflowStatus.PARKED:
        return WorkflowParked(record.id, record.park_detail or "")
    else:
        with examined(turn, record, turn.state.chronicle.of(record.key)) as body:
            if isinstance(body, Misfit):
                return WorkflowParked(record.id, body.detail)
            pause = _pause_at(body[0], row.position)
    if pause is None:
        return _refusal(turn, record, op.pause_id)
    mark_reading(turn.state.mark, record.key, row.position, op.answer)
    return pause


def _pause_at(session: WorkflowSessionRunner, position: str) -> PauseOp[object] | None:
    wait = session.waits.get(position)
    return wait.op if wait is not None and isinstance(wait.op, PauseOp) else None


def _row(turn: Turn, record: WorkflowRecord, pause_id: str) -> EventWait | None:
    """The stored question of a pause that is open."""
    loaded = turn.state.loaded.get(record.key)
    rows = loaded.rows if loaded is not None else turn.state.waits.of(record.key)
    return next((row for row in rows.values() if row.question and place(record.round, row.position) == pause_id), None)


def decide_resume_pause(turn: Turn, op: ResumePause) -> DurableError | None:
    """Record an answer and continue the body. If the answer is refused, nothing changes, not even what is loaded."""
    asked = _asked(turn, op)
    if isinstance(asked, DurableError):
        return asked
    try:
        check_payload(turn, "pause: answer", op.answer)
        answer, value = read_own(asked.coder(turn.state.codec), op.answer, op.written_as)
        check_payload(turn, "pause: answer", answer)
    except (CodecError, PayloadTooLarge) as error:
        return error
    pause = _find(turn, op.workflow_id, op.pause_id)
    if isinstance(pause, DurableError):
        return pause
    loaded, wait = pause
    feed(turn, loaded, wait, EntryStatus.OK, answer, value=value)
    return None


def decide_cancel_pause(turn: Turn, op: CancelPause) -> DurableError | None:
    """Withdraw a question: the body gets `PauseCancelled`."""
    pause = _find(turn, op.workflow_id, op.pause_id)
    if isinstance(pause, DurableError):
        return pause
    loaded, wait = pause
    error = PauseCancelled(op.workflow_id, op.pause_id, op.reason)
    feed(turn, loaded, wait, EntryStatus.ERROR, pack_error(error))
    return None


def _find(turn: Turn, workflow_id: str, pause_id: str) -> tuple[Loaded, WaitCondition] | DurableError:
    """An open pause and its live body, or why there is none. Raises `WorkflowNotFound`."""
    record = turn.state.record(workflow_id)
    # Search the rows first: a body that has not paused there must not be loaded, and perhaps started, for this call.
    row = _row(turn, record, pause_id)
    if row is None:
        return _refusal(turn, record, pause_id)
    loaded = None if record.status is WorkflowStatus.PARKED else load(turn, record)
    wait = loaded.session.waits.get(row.position) if loaded is not None else None
    if loaded is not None and wait is not None and isinstance(wait.op, PauseOp):
        return loaded, wait
    # Loading may have parked the workflow, or shown that under new code it does not pause here.
    record = turn.state.by_key(record.key) or record
    if record.status is WorkflowStatus.PARKED:
        return WorkflowParked(record.id, record.park_detail or "")
    return _refusal(turn, record, pause_id)


def _refusal(turn: Turn, record: WorkflowRecord, pause_id: str) -> DurableError:
    """Why a pause is not open, as far as the history of this round shows. Raises `CodecError`."""
    for entry in turn.state.chronicle.of(record.key):
        if entry.kind is EntryKind.PAUSE and place(record.round, entry.position) == pause_id:
            if entry.status is EntryStatus.OK:
                return PauseAlreadyAnswered(record.id, pause_id)
            error = unpack_error(entry.outcome)
            if isinstance(error, (PauseExpired, PauseCancelled)):
                return error
    if record.status.is_terminal:
        return WorkflowTerminated(record.id, record.status)
    return PauseNotFound(record.id, pause_id)
