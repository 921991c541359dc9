"""Progress: a value that a workflow publishes is stored in the commit of the step that published it.

A rebuilt body publishes again what it published before. `forget_known` drops such repeats.
"""

from __future__ import annotations

from durable.engine.decide.endings import check_payload
from durable.engine.decide.turn import Turn
from durable.engine.operations import ReadProgress
from durable.engine.state.state import shown
from durable.engine.state.workflows import Loaded
from durable.errors import PayloadTooLarge
from durable.model.records import Progress, WorkflowRecord
from durable.runner.results import Failed, SessionResult
from durable.runner.session import WorkflowSessionRunner


def store_progress(turn: Turn, loaded: Loaded, result: SessionResult) -> SessionResult:
    """Store the progress that the body has published in this step. Returns the result of the step.

    A value that is too large fails the workflow, as a result would. It does not raise in the body: what a body sees
    must not depend on a setting that may have changed when the body is rebuilt.
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
    """A body was rebuilt and has published as it was replayed. Drop the progress if it is stored already.

    It is new if the body has got further than the stored progress, because it begins now: in a new round or after its
    delay. It is also new if it differs after an operator has repaired or retried the workflow.
    """
    if session.published is None:
        return
    seq, value = session.published
    stored = turn.state.chronicle.progress_of(record.key)
    is_stored = stored is not None and (stored.round, stored.seq) >= (record.round, seq)
    if stored is not None and is_stored and (stored.value == value or not session.past.mends):
        session.published = None


def decide_read_progress(turn: Turn, op: ReadProgress) -> Progress | None:
    """The progress that a workflow has published last, if any. Raises `WorkflowNotFound`."""
    return turn.state.chronicle.progress_of(shown(turn.state, op.id).key)
