"""Requests of callers in other processes: each is decided once, and its answer is repeated for a while.

Requests that were kept while no engine ran are decided when the next one opens. Nobody waits for their answer any more,
so a start that is refused becomes a failed workflow, and an event a dead letter.
"""

from __future__ import annotations

import logging
from typing import Any

import attrs

from durable.backends.base import Answers
from durable.engine.decide.endings import bury_refused, mark_finished
from durable.engine.decide.events import decide_send_event
from durable.engine.decide.start import adopt_mail, decide_start_workflow
from durable.engine.decide.turn import Turn
from durable.engine.operations import Operation, SendEvent, StartWorkflow
from durable.engine.operations.log_lines import Tell
from durable.engine.operations.requests import DecideKept, Repeated, Request
from durable.errors import DurableError, NotSupported, StorageError
from durable.model.clock import SECOND
from durable.model.error_codec import pack_error
from durable.model.ids import digest
from durable.model.records import BY_KEY, WorkflowRecord, WorkflowStatus
from durable.model.requests import StoredAnswer
from durable.model.version import VERSION

# How long an answer is kept, in microseconds: longer than any caller repeats its request.
KEPT_FOR = 600 * SECOND


def repeated(turn: Turn, request: Request) -> Repeated | None:
    """The first answer to a request that was decided before; None if it must be decided."""
    text = turn.state.requests.answer(request.id)
    return None if text is None else Repeated(text)


def keep_answer(turn: Turn, request: Request, reply: Any, refusal: BaseException | None) -> None:
    """Store the answer to a request in the commit of everything that it has changed."""
    text = request.write(reply, refusal)
    turn.state.requests.put_answer(StoredAnswer(request_id=request.id, text=text, at=turn.now))


def decide_kept(turn: Turn, op: DecideKept) -> None:
    """Decide a start or an event that was kept while no engine ran."""
    kept, operation, refusal = op.request, op.operation, op.refusal
    if operation is None:
        # A newer version has written it, and may read it. It must not block the requests behind it.
        text = f"the request {kept.number}, kept while no engine ran, cannot be read and is kept: {refusal}"
        turn.effects.append(Tell(logging.ERROR, text, {}))
        return
    turn.state.requests.drop_kept(kept)
    if refusal is None:
        refusal = _refused(turn, operation, kept.at)
    if refusal is not None:
        _note_refusal(turn, operation, kept.at, refusal)


def _refused(turn: Turn, operation: Operation[Any], at: int) -> DurableError | None:
    """Decide a kept request. Returns why it is refused, None if it is not."""
    try:
        if isinstance(operation, StartWorkflow):
            decide_start_workflow(turn, operation, at=at)
        elif isinstance(operation, SendEvent):
            decide_send_event(turn, _aged(operation, turn.now - at))
        else:
            return NotSupported(type(operation).__name__, VERSION)
    except StorageError:
        raise
    except DurableError as refusal:
        return refusal
    return None


def _aged(operation: SendEvent, age: int) -> SendEvent:
    """An event that was sent a while ago: it expires as much earlier."""
    if operation.expire_after is None:
        return operation
    return attrs.evolve(operation, expire_after=max(0, operation.expire_after - max(0, age)))


def _note_refusal(turn: Turn, operation: Operation[Any], at: int, refusal: DurableError) -> None:
    """Leave a trace of a kept request that is refused: a failed workflow, or a dead letter; and a line in the log."""
    text = f"a request that was kept while no engine ran is refused: {type(operation).__name__}: {refusal}"
    turn.effects.append(Tell(logging.WARNING, text, {}))
    if isinstance(operation, SendEvent):
        bury_refused(turn, operation, at, refusal)
    elif isinstance(operation, StartWorkflow) and not _is_id_taken(turn, operation.id):
        record = WorkflowRecord(
            key=turn.state.next_serial(),
            id=operation.id,
            name=operation.name,
            version=operation.version or 1,
            status=WorkflowStatus.RUNNING,
            input=operation.input,
            start_digest=digest(operation.name, operation.input),
            created_at=at,
            start_at=at,
            tags=operation.tags,
            position_format=BY_KEY,
        )
        turn.state.workflows.register_workflow(record)
        adopt_mail(turn, record)
        mark_finished(turn, record, WorkflowStatus.FAILED, error=pack_error(refusal))


def _is_id_taken(turn: Turn, id: str) -> bool:
    """Whether a workflow has this id, in the open batch or in the store, where its row may be damaged."""
    return id in turn.state.workflows.ids or turn.state.backend.workflow(id) is not None


def sweep_answers(turn: Turn, limit: int) -> int:
    """Forget the answers that are older than anyone repeats a request. Returns how many."""
    old = turn.state.backend.find(Answers(before=turn.now - KEPT_FOR, limit=limit))
    turn.state.requests.drop_answers(old)
    return len(old)
