"""Pure decisions: what a workflow has published is stored with the step in which it was, and shown to who asks."""

from __future__ import annotations

from durable.engine.decide.endings import check_payload
from durable.engine.decide.turn import Turn
from durable.engine.operations import ReadProgress
from durable.engine.state.bodies import Loaded
from durable.engine.state.state import shown
from durable.errors import PayloadTooLarge
from durable.model.records import Progress, WorkflowRecord
from durable.runner.results import Failed, SessionResult
from durable.runner.session import WorkflowSessionRunner


def store_progress(turn: Turn, loaded: Loaded, result: SessionResult) -> SessionResult:
    """Put what the body has published into the commit of this step; the result of the step.

    A value that is too large fails the workflow, as a result would. It is not raised in the body: what a body sees must
    not depend on a setting that may be another one when it is rebuilt.
    """
    record, session = loaded.record, loaded.session
    assert session.published is not None
    (seq, text), session.published = session.published, None
    try:
        check_payload(turn, f"workflow {record.name}: progress", text)
    except PayloadTooLarge as error:
        return Failed(error)
    turn.state.chronicle.put_progress(
        Progress(workflow_key=record.key, round=record.round, seq=seq, value=text, at=turn.now)
    )
    return result


def forget_known(turn: Turn, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
    """A body was rebuilt and has published as it went: what is stored already is not news.

    It is news if the body has come further than anybody has seen: when it begins, in a round or after a delay; or if
    it says something else since an operator has set it right.
    """
    if session.published is None:
        return
    seq, value = session.published
    known = turn.state.chronicle.progress_of(record.key)
    is_known = known is not None and (known.round, known.seq) >= (record.round, seq)
    if known is not None and is_known and (known.value == value or not session.past.mends):
        session.published = None


def decide_read_progress(turn: Turn, op: ReadProgress) -> Progress | None:
    """What a workflow has published last. Raises `WorkflowNotFound`."""
    return turn.state.chronicle.progress_of(shown(turn.state, op.id).key)
