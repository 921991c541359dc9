"""A store file that no engine has open: reading it, and keeping starts and events for the next engine.

Everything here is synchronous and waits for the disk, so clients call it in a worker thread. Questions are answered by
the same decisions as in an engine, over a state that is thrown away; that state has no code, so no body ever runs.
"""

from __future__ import annotations

import contextlib
from typing import Any, TypeVar

import attrs

from durable.backends.base import Answers, Batch, Reads, SharedStore
from durable.engine.config import EngineConfig
from durable.engine.coordinator.decisions import WAIT_KINDS, decide_in
from durable.engine.decide.endings import check_payload
from durable.engine.decide.events import accept, earlier_answer, fingerprint
from durable.engine.decide.queries import Pending, Watched, answer_list, sight_of
from durable.engine.decide.start import difference
from durable.engine.decide.turn import Turn
from durable.engine.operations import AwaitChange, Delivered, Operation, Queued, SendEvent, StartWorkflow
from durable.engine.operations.forms import read_text, write_text
from durable.engine.operations.views import Description
from durable.engine.remote.overlay import KEPT_MAX, Overlay, kept_record, over
from durable.engine.remote.wire import name_of, read_answer, write_operation
from durable.engine.state.state import State
from durable.errors import EngineNotRunning, EventConflict, InvalidValue, WorkflowAlreadyExists
from durable.model.codec import Codec
from durable.model.ids import digest
from durable.model.records import WorkflowRecord
from durable.model.registry import Registry
from durable.model.requests import KeptRequest

A = TypeVar("A")


@attrs.frozen
class NotYet:
    """Instead of an answer that comes when a workflow ends or changes: it has not."""


@attrs.frozen(kw_only=True)
class Change:
    """A change that a client asks for: the operation, the id of its request, and when."""

    operation: Operation[Any]
    request_id: str
    at: int


# --- reading --------------------------------------------------------------------------------------------------------


def read(store: SharedStore, operation: Operation[A], now: int) -> A | NotYet:
    """The answer to a question, from the file. Raises what an engine would raise, or a `StorageError`."""
    answer: A | NotYet = store.read(lambda reads: _answer(reads, operation, now))
    return answer


def _answer(store: Reads, operation: Operation[Any], now: int) -> Any:
    overlay, backend = over(store)
    if operation.is_list:
        return answer_list(backend, operation, now)
    turn = _turn(overlay, store, now)
    reply = decide_in(turn, operation)
    if isinstance(operation, AwaitChange):
        sight = sight_of(turn, operation.id)
        return NotYet() if sight == operation.seen and not sight.status.is_terminal else sight
    if isinstance(reply, Description) and reply.problem is not None and reply.park_reason is None:
        return attrs.evolve(reply, problem="no engine runs: what it waits for shows when its code is loaded")
    return NotYet() if isinstance(reply, (Pending, Watched)) else reply


def _turn(overlay: Overlay, store: Reads, now: int) -> Turn:
    """A turn over a state without code, whose batch nobody commits."""
    _, backend = over(store)
    state = State(backend, Registry(), Codec(), EngineConfig())
    state.workflows.not_begun.update(record.key for record in overlay.starts.values())
    return Turn(state, now, WAIT_KINDS)


def first_answer(store: SharedStore, change: Change) -> Any:
    """The answer of an engine that has decided this change before it went away.

    Raises `LookupError` if no engine has. So a client that has lost its connection knows what happened.
    """
    return store.read(lambda reads: _first_answer(reads, change))


def _first_answer(store: Reads, change: Change) -> Any:
    answers = store.find(Answers(request_id=change.request_id))
    if not answers:
        raise LookupError(change.request_id)
    return read_answer(type(change.operation), read_text(answers[0].text))


# --- keeping --------------------------------------------------------------------------------------------------------


def keep(store: SharedStore, change: Change, incarnation: str) -> Any:
    """Keep a start or an event for the next engine, and return the reply for its caller.

    What needs no code is checked first, and refused as an engine would. Raises `StoreInUse` if somebody owns the store,
    and `EngineNotRunning` for what only an engine can tell.
    """
    # Opening would create a missing file, and migrate an old one. Reading refuses both.
    store.read(lambda reads: None)
    opened = store.open_briefly(incarnation)
    try:
        return _keep(store, change, is_clean=opened.clean)
    finally:
        store.close()


def _keep(store: SharedStore, change: Change, *, is_clean: bool) -> Any:
    with contextlib.suppress(LookupError):
        return _first_answer(store, change)
    overlay, _ = over(store)
    if overlay.count_kept >= KEPT_MAX:
        raise EngineNotRunning(
            store.path, name_of(change.operation), f"{KEPT_MAX} starts and events are kept for it already"
        )
    turn, operation = _turn(overlay, store, change.at), change.operation
    text = write_text(write_operation(operation))
    kept = KeptRequest(number=overlay.last + 1, request_id=change.request_id, operation=text, at=change.at)
    if isinstance(operation, StartWorkflow):
        reply: Any = _known_start(turn, operation, store.path)
    else:
        assert isinstance(operation, SendEvent), "only starts and events are kept"
        reply = _known_event(turn, operation, overlay)
    if reply is None:
        store.commit(Batch(number=1, kept_put={kept.number: kept}, clean_stop=is_clean))
        reply = kept_record(kept, operation) if isinstance(operation, StartWorkflow) else Queued()
    return reply


def _known_start(turn: Turn, start: StartWorkflow, store: str) -> WorkflowRecord | None:
    """The workflow that the same call has started, or will; None if the id is free. Raises refusals."""
    stored = turn.state.find(start.id)
    if stored is None:
        check_payload(turn, f"workflow {start.name}: arguments", start.input)
        if len(start.tags) > turn.state.config.max_tags:
            raise InvalidValue("tags", f"{len(start.tags)} are more than max_tags={turn.state.config.max_tags}")
        return None
    problem = difference(stored, start)
    if problem is None:
        return stored
    if stored.name == start.name and stored.start_digest != digest(start.name, start.input):
        # The code may add defaults to the arguments, and then they may be the same.
        problem = f"only it can tell whether the workflow {start.id!r} was started by the same call"
        raise EngineNotRunning(store, name_of(start), problem)
    raise WorkflowAlreadyExists(start.id, stored.name, problem)


def _known_event(turn: Turn, event: SendEvent, overlay: Overlay) -> Delivered | Queued | None:
    """The answer to a repeat of this event; None if it is new. Raises refusals."""
    if (earlier := earlier_answer(turn, event)) is not None:
        return earlier
    for _, kept in overlay.events:
        if event.event_id is not None and kept.event_id == event.event_id:
            if fingerprint(kept) != fingerprint(event):
                raise EventConflict(event.event_id)
            return Queued()
    accept(turn, event)
    return None
