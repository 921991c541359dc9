"""Every step of every body: load, feed, advance, settle.

- `load` brings a body into memory, rebuilt from its history if need be.
- `feed` records an entry and gives it to the body. All that follows from it (new waits, an end, the parent's wake-up,
  an event that is consumed) is the same decision, and so the same commit.
- `advance` does what the body asks for after a step.
- `settle` brings the workflow's row in line with its waits: its status and its next timer.

The engine marks each step before it runs (`State.mark`). If the process dies, the next engine knows the body and step.

A value that a body publishes is stored in the commit of the step that published it. A rebuilt body publishes again what
it published before; `forget_known` drops such repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from zlib import crc32

from durable.engine.decide.endings import check_payload, child_id_of, end_workflow, park
from durable.engine.decide.facts import about, tell_failed_undos, tell_rebuilt, tell_step
from durable.engine.decide.turn import Turn
from durable.engine.decide.waits import forget
from durable.engine.operations.facts import WorkflowResumed, WorkflowUnparked, WorkflowWaiting
from durable.engine.operations.messages import CancelChild, LookAgain
from durable.engine.state.crashes import BEGINS, REBUILT, WHAT, WHERE, mark_step
from durable.engine.state.state import has_begun
from durable.engine.state.workflows import Loaded
from durable.errors import CodecError, HistoryDiverged, InvariantViolated, PayloadTooLarge, StorageError
from durable.model.codec import Arguments
from durable.model.error_codec import pack_error
from durable.model.position import place
from durable.model.records import (
    CancelCause,
    EntryKind,
    EntryStatus,
    HistoryEntry,
    ParkReason,
    Progress,
    WorkflowRecord,
    WorkflowStatus,
)
from durable.runner.fibers import WaitCondition
from durable.runner.replaying import parking_of, session_of
from durable.runner.results import Completed, ContinueAs, Failed, SessionResult, Suspended
from durable.runner.session import NOTHING_TRIMMED, WorkflowSessionRunner

_UNREAD: Any = object()
# Bound once: on Python 3.11 an attribute of an enum costs as much as a call, and every step needs these.
_ACTIVITY = EntryKind.ACTIVITY
_RUNNING, _SUSPENDED = WorkflowStatus.RUNNING, WorkflowStatus.SUSPENDED
# Creates a NamedTuple without the call of its `__new__` in Python: every step creates two of them.
new_tuple = tuple.__new__


def load(turn: Turn, record: WorkflowRecord) -> Loaded | None:
    """The live body of a workflow, rebuilt from its history if need be.

    None if the workflow had to be parked because it cannot be rebuilt, or if it ended as soon as it was rebuilt. This
    unparks a workflow that fits again.
    """
    loaded = turn.state.touch(record.key)
    if loaded is not None:
        return loaded
    try:
        history = turn.state.chronicle.of(record.key)
        # Only now: the answer changes when the body is loaded.
        is_replay = turn.state.is_observed and has_begun(turn.state, record, history)
        session, result = rebuild(turn, record, history)
        rows = turn.state.waits.of(record.key)
    except (InvariantViolated, StorageError):
        # A bug in the engine or an unreadable store is not the fault of this workflow.
        raise
    except Exception as error:
        # A body that cannot be rebuilt must not stop other workflows.
        park(turn, record, *parking_of(error))
    else:
        loaded = Loaded(record, session, last_seq(history), rows)
        turn.state.load(loaded)
        if turn.state.is_observed:
            tell_rebuilt(turn, loaded, history, is_replay=is_replay)
        if record.crashes:
            _survive(turn, loaded)
        # Before progress is compared: an answer of `patched` takes a number in the history, but is not progress.
        _look_after_history(turn, loaded)
        if record.status is WorkflowStatus.PARKED:
            turn.state.workflows.mark_resumed(loaded.record, record.wake_at)
            turn.effects.append(WorkflowUnparked(**about(turn, record)))
        for position, row in list(rows.items()):
            wait = session.waits.get(position)
            if wait is None or wait.kind is not row.kind:
                forget(turn, loaded, position)
        # The history of earlier rounds is gone, so it cannot show whether they spawned children.
        session.has_spawned = session.has_spawned or record.round > 0
        forget_known(turn, record, session)
        withdrawn: Sequence[WaitCondition] = ()
        if loaded.record.cancel_pending and not isinstance(result, Failed):
            result = _tell_cancelled(turn, loaded)
            withdrawn = result.withdrawn if isinstance(result, Suspended) else ()
        if isinstance(result, Suspended):
            result = Suspended(list(session.waits.values()), withdrawn)
        advance(turn, loaded, result)
        return turn.state.loaded.get(record.key)
    return None


def rebuild(
    turn: Turn, record: WorkflowRecord, history: Sequence[HistoryEntry]
) -> tuple[WorkflowSessionRunner, SessionResult]:
    """A new body, replayed to the end of a history. Raises whatever keeps it from being rebuilt."""
    mark_step(turn.state.mark, record.key, REBUILT if history else BEGINS)
    session = _session(turn, record)
    session.registered = partial(turn.state.waits.of, record.key)
    turn.state.watch.enter(record, session)
    try:
        if has_begun(turn.state, record, history):
            return session, session.replay(history)
        # It takes the current code. If it has a history, it is a fork.
        return session, session.replay(history, is_new_fork=True) if history else session.start()
    finally:
        # Needed only while the body is rebuilt.
        session.registered = tuple
        turn.state.watch.leave()


def last_seq(history: Sequence[HistoryEntry]) -> int:
    """The number of the last entry. The length does not tell, because loops trim earlier entries."""
    return history[-1].seq if history else 0


def begin(turn: Turn, record: WorkflowRecord, mail: int, arguments: Arguments | None) -> None:
    """Run the body of a new workflow for the first time."""
    mark_step(turn.state.mark, record.key, BEGINS)
    session = _session(turn, record, arguments)
    loaded = Loaded(record, session, 0, mail=mail)
    turn.state.load(loaded)
    turn.state.watch.enter(record, session)
    try:
        result = session.start()
    finally:
        seconds = turn.state.watch.leave()
    if turn.state.is_observed:
        tell_step(turn, loaded, None, seconds)
    advance(turn, loaded, result)


def feed(
    turn: Turn, loaded: Loaded, wait: WaitCondition, status: EntryStatus, outcome: str, *, value: Any = _UNREAD
) -> bool:
    """Record the outcome of a wait and step the body. False if the body cannot read the outcome: then the workflow is
    parked, nothing is recorded, and the caller still has what it wanted to feed."""
    # The wall clock may have been set back: a timer must not appear to fire before its deadline.
    at = loaded.session.now
    if at < turn.now:
        at = turn.now
    entry = new_tuple(HistoryEntry, (loaded.seq + 1, wait.position, wait.kind, wait.name, status, outcome, at, None))
    return _feed(turn, loaded, entry, value)


def feed_cancel(turn: Turn, loaded: Loaded) -> None:
    """Raise `Cancelled` in the body, with the reason in its record."""
    _feed(turn, loaded, _cancellation(turn, loaded), _UNREAD)


def _cancellation(turn: Turn, loaded: Loaded) -> HistoryEntry:
    """The entry that raises `Cancelled` in the body. It has no position, because it answers no single wait."""
    coder = turn.state.codec.coder(str | None, "reason of a cancellation")
    reason, _ = coder.pack(loaded.record.cancel_reason)
    return HistoryEntry(loaded.seq + 1, "", EntryKind.CANCEL, "cancel", EntryStatus.OK, reason, turn.now)


def _tell_cancelled(turn: Turn, loaded: Loaded) -> SessionResult:
    """Raise a `Cancelled` that was pending while the body could not run, before the body does anything else."""
    record, entry = loaded.record, _cancellation(turn, loaded)
    turn.state.workflows.raise_cancel(record)
    mark_step(turn.state.mark, record.key, crc32(b""), entry.outcome)
    turn.state.watch.enter(record, loaded.session)
    try:
        result = loaded.session.feed(entry)
    finally:
        seconds = turn.state.watch.leave()
    loaded.seq = entry.seq
    turn.state.chronicle.append(record.key, entry)
    tell_step(turn, loaded, entry, seconds)
    if record.crashes:
        _survive(turn, loaded)
    return result


def advance(turn: Turn, loaded: Loaded, result: SessionResult) -> None:
    """Do what the body asks for after a step: withdraw and open waits, store its progress, or end the workflow."""
    session = loaded.session
    if session.answers or session.trimmed:
        _look_after_history(turn, loaded)
    # A body that ends has withdrawn waits too: the children among them must be cancelled.
    kinds = turn.kinds
    for wait in result.withdrawn if isinstance(result, Suspended) else session.waits.withdrawn or ():
        if (act := kinds[wait.kind].withdrawn) is not None:
            act(turn, loaded, wait)
    if session.published is not None:
        result = store_progress(turn, loaded, result)
    if session.overrun is not None:
        result = Failed(session.overrun)
    if not isinstance(result, Suspended):
        _end(turn, loaded, result)
        return
    waits = session.waits
    is_passing = False
    for wait in result.opened:
        # A wait may have been opened and withdrawn in the same step.
        if waits.get(wait.position) is not wait:
            continue
        kind = kinds[wait.kind]
        if kind.opened is not None:
            kind.opened(turn, loaded, wait)
        if kind.look is not None:
            turn.messages.send(LookAgain(loaded.record.key, wait.position))
            is_passing = is_passing or kind.is_passing
    if is_passing:
        # The state of a round is recorded next, in this decision; what the body waits for is known only after that.
        return
    record = loaded.record
    if waits.timed or not waits.open_activities or record.status is not _RUNNING or record.wake_at is not None:
        # Otherwise its row is right already: it runs from one activity to the next, without a timer.
        settle(turn, loaded)


def _look_after_history(turn: Turn, loaded: Loaded) -> None:
    """Record the answers of `patched`, and trim finished rounds of loops, which no replay needs."""
    session, key = loaded.session, loaded.record.key
    for change_id, answer in session.answers:
        loaded.seq += 1
        at, outcome = max(turn.now, session.now), "true" if answer else "false"
        entry = HistoryEntry(loaded.seq, "", EntryKind.PATCH, change_id, EntryStatus.OK, outcome, at)
        turn.state.chronicle.append(key, entry)
    session.answers = ()
    turn.state.chronicle.trim(key, session.trimmed)
    session.trimmed = NOTHING_TRIMMED


def _end(turn: Turn, loaded: Loaded, result: Completed | Failed | ContinueAs) -> None:
    """End a workflow. If its result cannot be stored, it fails, but first its body runs the undos that it owes."""
    record, session = loaded.record, loaded.session
    refused = end_workflow(turn, record, result)
    if refused is None:
        tell_failed_undos(turn, record, session.failed_undos())
    elif session.owes:
        seq, at, text = loaded.seq + 1, max(turn.now, session.now), pack_error(refused)
        entry = HistoryEntry(seq, "", EntryKind.REFUSAL, "result", EntryStatus.ERROR, text, at)
        _feed(turn, loaded, entry, _UNREAD)
    else:
        _end(turn, loaded, Failed(refused))


def settle(turn: Turn, loaded: Loaded, held_up: int | None = None) -> None:
    """Bring the workflow's row in line with its waits: the status and the next timer.

    `held_up`: its timers must not fire before this instant, so wake it then instead (`waits.hold_up`).
    """
    record, session = loaded.record, loaded.session
    waits = session.waits
    # A workflow with waits that were put off counts as running, so that recovery looks at them after a crash.
    status = _RUNNING if waits.open_activities or record.key in turn.state.put_off else _SUSPENDED
    wake_at = session.wake_at(turn.state.in_flight.get(record.key, ())) if waits.timed else None
    if held_up is not None:
        wake_at = held_up
    if status is record.status and wake_at == record.wake_at:
        return
    if status is _RUNNING:
        turn.state.workflows.mark_resumed(record, wake_at)
    else:
        turn.state.workflows.mark_suspended(record, wake_at)
    if turn.state.is_observed and status is not record.status:
        facts = about(turn, record)
        is_waiting = status is _SUSPENDED
        turn.effects.append(WorkflowWaiting(**facts, wake_at_us=wake_at) if is_waiting else WorkflowResumed(**facts))


def _session(turn: Turn, record: WorkflowRecord, arguments: Arguments | None = None) -> WorkflowSessionRunner:
    """A new body that has not run. Raises if its code is missing or its arguments cannot be read."""
    session = session_of(record, turn.state.registry, turn.state.codec, arguments)
    session.max_waits = turn.state.config.max_open_waits
    return session


def _feed(turn: Turn, loaded: Loaded, entry: HistoryEntry, value: Any) -> bool:
    """Step the body with an entry, and record the entry only if the body could read it. Then do what it asks for.

    Nearly all steps of live bodies come through here, so the mark is set without a helper call.
    """
    state, record, session = turn.state, loaded.record, loaded.session
    mark = state.mark
    mark[0], mark[WHERE], mark[WHAT] = record.key, crc32(entry.position.encode()), crc32(entry.outcome.encode())
    watch = state.watch
    watch.enter(record, session)
    try:
        result = session.feed(entry) if value is _UNREAD else session.feed(entry, value)
    except (CodecError, HistoryDiverged) as error:
        park(turn, record, ParkReason.UNREADABLE, str(error), entry.position)
        return False
    finally:
        seconds = watch.leave()
    loaded.seq = entry.seq
    state.chronicle.append(record.key, entry)
    if state.is_observed:
        tell_step(turn, loaded, entry, seconds)
    if loaded.rows and entry.position in loaded.rows:
        forget(turn, loaded, entry.position)
    if record.crashes:
        _survive(turn, loaded)
    advance(turn, loaded, result)
    return True


def _survive(turn: Turn, loaded: Loaded) -> None:
    """A body that died before has survived a step. If it died in the same step, that death no longer counts."""
    mark, record = turn.state.mark, loaded.record
    left = turn.state.deaths.survive(record.key, mark[WHERE], mark[WHAT])
    if left < record.crashes:
        turn.state.workflows.count_crashes(record, left)


def cancel_awaited(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """The body no longer waits for a child: cancel the child."""
    record = loaded.record
    child_id = child_id_of(record, wait.op, wait.position)
    where = place(record.round, wait.position)
    turn.send(CancelChild(child_id, record.key, record.id, where, CancelCause.NOT_AWAITED))
    forget(turn, loaded, wait.position)


# --- what was asked of another shard -------------------------------------------------------------------------------


def is_answered(turn: Turn, loaded: Loaded, wait: WaitCondition) -> bool:
    """Whether a wait has already asked another shard. If the answer has arrived, it is fed to the body here."""
    row = loaded.rows.get(wait.position)
    if row is None:
        return False
    if row.answer is not None:
        feed(turn, loaded, wait, *row.answer)
    return True


# --- progress ---------------------------------------------------------------------------------------------------------


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


# --- rounds of loops --------------------------------------------------------------------------------------------------


def check_state(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """Record a state and continue, in the commit that ends the round. If it is too large, the body gets an error."""
    try:
        check_payload(turn, "loop: state", wait.input)
    except PayloadTooLarge as error:
        feed(turn, loaded, wait, EntryStatus.ERROR, pack_error(error))
    else:
        feed(turn, loaded, wait, EntryStatus.OK, wait.input)
