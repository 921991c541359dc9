"""Pure decisions: an operator sets a workflow right. It is retried, forked, or one of its results is replaced.

Every one of them first replays the history as it would be, and writes nothing if that does not fit the code at hand.
What was recorded stays; an entry that is looked up (`runner.past`) says what became of it, when, and why.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import attrs

from durable.codec import Coder
from durable.engine.delivery import adopt_mail
from durable.engine.endings import check_payload, child_id_of, stop_activities
from durable.engine.kinship import is_kept, nobody_waits, parent_ended
from durable.engine.operations import Follow, ResumeWorkflow
from durable.engine.progress import last_seq, load, rebuild
from durable.engine.repair_operations import FindStep, ForkWorkflow, RepairWorkflow, RetryWorkflow
from durable.engine.turn import Turn
from durable.errors import (
    CodecError,
    DurableError,
    InvariantViolated,
    PayloadTooLarge,
    StorageError,
    WorkflowAlreadyExists,
    WorkflowTerminated,
)
from durable.ids import digest, place
from durable.outcomes import error_summary, pack_error
from durable.records import EntryKind, EntryStatus, HistoryEntry, ParkReason, WorkflowRecord, WorkflowStatus
from durable.repair_errors import CannotFork, CannotRepair, CannotRetry
from durable.runner.fibers import WaitCondition
from durable.runner.past import NOTES, Forked, Past, Repair, Retried, effective
from durable.runner.replaying import parking_of
from durable.runner.results import Failed, SessionResult
from durable.runner.session import WorkflowSessionRunner

# How many recorded positions a refusal names.
_NAMED_MAX = 12


# --- retry --------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class _Plan:
    """What is to be done so that a workflow goes on: the note in its history, and the children that go on with it."""

    record: WorkflowRecord
    note: HistoryEntry
    retried: list[_Plan] = attrs.field(factory=list)
    # As they will be.
    restarted: list[WorkflowRecord] = attrs.field(factory=list)


def decide_retry_workflow(turn: Turn, op: RetryWorkflow) -> DurableError | None:
    """Let a failed or parked workflow go on. Raises `WorkflowNotFound`."""
    record = turn.state.record(op.id)
    if record.status is WorkflowStatus.PARKED:
        return _unpark(turn, record)
    if record.status is not WorkflowStatus.FAILED:
        return CannotRetry(record.id, f"only what has failed or is parked can be, and it is {record.status.value}")
    parent = None if is_kept(record) or record.parent_key is None else turn.state.readable(record.parent_key)
    if parent is not None and parent.status.is_terminal:
        # It would go on without anybody to end with.
        return CannotRetry(record.id, f"its parent {parent.id!r} has ended; retry that, or fork this one")
    plan = _plan(turn, record)
    if isinstance(plan, DurableError):
        return plan
    _carry_out(turn, plan)
    return None


def _unpark(turn: Turn, record: WorkflowRecord) -> DurableError | None:
    if record.park_reason is ParkReason.CRASHED:
        # Whether it takes the process down again is seen in the next batch, when this is committed.
        again = record.with_status(WorkflowStatus.RUNNING, crashes=0, park_reason=None, park_detail=None)
        turn.state.put(again, record)
        turn.effects.append(Follow(ResumeWorkflow(record.key)))
        return None
    if load(turn, record) is not None:
        return None
    current = turn.state.by_key(record.key) or record
    # It may also have fitted, and ended at once.
    parked = current.status is WorkflowStatus.PARKED
    return CannotRetry(record.id, f"it is still parked: {current.park_detail}") if parked else None


def _plan(turn: Turn, record: WorkflowRecord) -> _Plan | DurableError:
    """What retrying a failed workflow takes, or why it cannot be."""
    history = turn.state.chronicle.of(record.key)
    learnt = [entry for entry in Past(history).entries if entry.kind not in NOTES]
    if learnt and "u" in learnt[-1].position.split("."):
        problem = "what it had done was undone; start it anew, or fork it from before the step that failed"
        return CannotRetry(record.id, problem)
    note = _retried(record, learnt, last_seq(history) + 1, turn.now)
    tried = _try(turn, record, [*history, note])
    if isinstance(tried, _Misfit):
        return CannotRetry(record.id, tried.detail)
    if isinstance(tried.result, Failed):
        error_type, message = error_summary(pack_error(tried.result.error))
        problem = (
            f"with the code at hand what is recorded ends in {error_type}: {message}; "
            "deploy the code that mends it, repair the result that it stumbles over, or fork it from an earlier step"
        )
        return CannotRetry(record.id, problem)
    plan = _Plan(record, note)
    refusals = (
        *(_plan_tied(turn, plan, entry) for entry in learnt if entry.kind is EntryKind.SPAWN),
        *(_plan_child(turn, plan, wait) for wait in tried.waits.values()),
    )
    return next((refusal for refusal in refusals if refusal is not None), plan)


def _retried(record: WorkflowRecord, learnt: Sequence[HistoryEntry], seq: int, now: int) -> HistoryEntry:
    """The note that a workflow was retried: if the last thing it learnt was an error, that is void."""
    position = ""
    void: list[int] = []
    if learnt and learnt[-1].status is EntryStatus.ERROR:
        position = learnt[-1].position
        # With its failed attempts: the step begins anew.
        void = [entry.seq for entry in learnt if entry.position == position]
    retried = Retried(void, max(0, now - (record.finished_at or now)))
    return HistoryEntry(seq, position, EntryKind.RETRIED, "retry", EntryStatus.OK, retried.text(), now)


def _plan_tied(turn: Turn, plan: _Plan, entry: HistoryEntry) -> DurableError | None:
    """A child that was spawned to end with its parent begins anew with it, if it has ended for that."""
    child = turn.state.find(json.loads(entry.outcome)) if entry.status is EntryStatus.OK else None
    if child is None or child.parent_key != plan.record.key or child.cancel_reason != parent_ended(plan.record):
        return None
    if not child.status.is_terminal:
        return _still_ending(plan, child)
    plan.restarted.append(_anew(turn, child))
    return None


def _plan_child(turn: Turn, plan: _Plan, wait: WaitCondition) -> DurableError | None:
    """A child that has ended with its parent, or has made it fail, goes on with it."""
    parent = plan.record
    child = _awaited(turn, parent, wait)
    if child is None or child.status is WorkflowStatus.SUCCEEDED:
        return None
    if child.status is WorkflowStatus.FAILED:
        inner = _plan(turn, child)
        if isinstance(inner, DurableError):
            return CannotRetry(parent.id, str(inner))
        plan.retried.append(inner)
        return None
    if not child.status.is_terminal:
        return _still_ending(plan, child) if child.cancel_requested else None
    if any(one.key == child.key for one in plan.restarted):
        return None
    if wait.kind is EntryKind.CHILD and child.cancel_reason in (parent_ended(parent), nobody_waits(parent)):
        definition = wait.op.definition  # type: ignore[attr-defined]  # it is the call of a child
        try:
            turn.state.registry.add(definition)
        except DurableError as error:
            return CannotRetry(parent.id, str(error))
        again = _anew(turn, child, name=definition.name, version=definition.version, input=wait.input)
        plan.restarted.append(again)
        return None
    position = (child.parent_place or "").rpartition(":")[2]
    problem = f"child {child.id!r} was cancelled; fork it from position {position}, which starts another child"
    return CannotRetry(parent.id, problem)


def _awaited(turn: Turn, parent: WorkflowRecord, wait: WaitCondition) -> WorkflowRecord | None:
    """The child of its own that a workflow waits for here, if it is there."""
    if wait.kind is EntryKind.CHILD:
        child = turn.state.find(child_id_of(parent, wait.op, wait.position))
        is_own = child is not None and child.parent_place == place(parent.round, wait.position)
    else:
        child = turn.state.find(wait.name) if wait.kind is EntryKind.RESULT else None
        is_own = child is not None
    return child if is_own and child is not None and child.parent_key == parent.key else None


def _still_ending(plan: _Plan, child: WorkflowRecord) -> CannotRetry:
    return CannotRetry(plan.record.id, f"child {child.id!r} is being cancelled; retry when it has ended")


def _anew(turn: Turn, child: WorkflowRecord, **call: Any) -> WorkflowRecord:
    """A child that was stopped because its parent had failed has cleaned up: it begins anew, under its id."""
    return child.with_status(
        WorkflowStatus.RUNNING,
        round=child.round + 1,
        start_at=turn.now,
        finished_at=None,
        error=None,
        cancel_requested=False,
        cancel_reason=None,
        crashes=0,
        cursors=(),
        **call,
    )


def _carry_out(turn: Turn, plan: _Plan) -> None:
    """Children first: their parent must not find them ended."""
    state, record = turn.state, plan.record
    for inner in plan.retried:
        _carry_out(turn, inner)
    for child in plan.restarted:
        state.chronicle.clear(child.key)
        state.reopen(child)
        state.unbegun.add(child.key)
        turn.effects.append(Follow(ResumeWorkflow(child.key)))
    again = record.with_status(WorkflowStatus.RUNNING, finished_at=None, error=None, result=None, crashes=0)
    state.reopen(again)
    state.chronicle.add(record.key, [plan.note])
    load(turn, again)


# --- fork ---------------------------------------------------------------------------------------------------------


def decide_fork_workflow(turn: Turn, op: ForkWorkflow) -> DurableError | None:
    """Start a workflow with what another had learnt before a position. Raises `WorkflowNotFound`."""
    state = turn.state
    source = state.record(op.id)
    if (known := state.find(op.new_id)) is not None:
        return WorkflowAlreadyExists(op.new_id, known.name)
    history = state.chronicle.of(source.key)
    recorded = effective(history)
    copied = _before(recorded, op.position)
    if copied is None:
        return CannotFork(source.id, op.position, _nothing_there(recorded))
    if any(entry.kind is EntryKind.CANCEL for entry in copied):
        return CannotFork(source.id, op.position, "it was being cancelled by then; choose an earlier position")
    # What has not moved the body makes the part that was lived by the source no longer.
    lived = [entry for entry in Past(copied).entries if entry.kind not in NOTES]
    text = Forked(source.id, last_seq(lived)).text()
    seq = last_seq(copied) + 1
    note = HistoryEntry(seq, op.position, EntryKind.FORKED, "fork", EntryStatus.OK, text, turn.now)
    record = WorkflowRecord(
        key=state.serial + 1,
        id=op.new_id,
        name=source.name,
        version=source.version,
        status=WorkflowStatus.RUNNING,
        input=source.input,
        start_digest=digest(source.name, source.input),
        created_at=turn.now,
        start_at=source.start_at,
        round=source.round,
        tags=source.tags,
        cursors=tuple(_cursors(turn, source, copied, recorded[len(copied) :])),
    )
    tried = _try(turn, record, [*copied, note])
    if isinstance(tried, _Misfit):
        return CannotFork(source.id, op.position, tried.detail)
    if (loop := _lost_loop(history, copied, tried.waits)) is not None:
        problem = f"the loop at {loop} had done rounds by then that are trimmed; choose a later position"
        return CannotFork(source.id, op.position, problem)
    state.next_serial()
    state.put_new(record)
    state.chronicle.add(record.key, [*copied, note])
    adopt_mail(turn, record)
    load(turn, record)
    return None


def _before(recorded: list[HistoryEntry], position: str) -> list[HistoryEntry] | None:
    """What was recorded before the first entry at a position or below it."""
    notes = False
    for number, entry in enumerate(recorded):
        if entry.position == position or entry.position.startswith(f"{position}."):
            if entry.kind not in NOTES:
                return recorded[:number]
            notes = True
    # What was begun there anew has come to nothing yet.
    return recorded if notes else None


def _cursors(
    turn: Turn, source: WorkflowRecord, copied: Sequence[HistoryEntry], cut: Sequence[HistoryEntry]
) -> Iterator[tuple[str, str, int]]:
    """Up to which broadcast the source had come: one that stands in the copied part is not taken again.

    Histories do not say which broadcast it was, so they are found by what they have told, in order.
    """
    for name, key, serial in source.cursors:
        if any((entry.kind, entry.name) == (EntryKind.EVENT, name) for entry in cut):
            told = [entry.outcome for entry in copied if (entry.kind, entry.name) == (EntryKind.EVENT, name)]
            serial = 0
            for event in turn.state.post.events_for(name, key, None):
                if told and event.payload == told[0]:
                    del told[0]
                    serial = event.serial
        yield name, key, serial


def _lost_loop(history: Sequence[HistoryEntry], copied: Sequence[HistoryEntry], waits: Iterable[str]) -> str | None:
    """A loop that may have been further by then than its open rounds are now, which are the first ones."""
    until = next((entry.seq for entry in effective(history)[len(copied) :]), last_seq(history) + 1)
    if sum(entry.seq < until for entry in history) == until - 1:
        # Nothing was trimmed before it.
        return None
    for loop in Past(history).loops:
        first = next(entry for entry in history if entry.position.startswith(f"{loop}."))
        # One that begins with a state has lost what came before it.
        is_trimmed = first.kind is EntryKind.LOOP and _loop_of(first) == loop
        if is_trimmed and first.seq >= until and any(position.startswith(f"{loop}.") for position in waits):
            return loop
    return None


def _loop_of(state: HistoryEntry) -> str:
    """The position of the loop that a state belongs to."""
    return state.position.rpartition(".")[0].rpartition(".")[0]


def _nothing_there(recorded: list[HistoryEntry]) -> str:
    positions = list(dict.fromkeys(entry.position for entry in recorded if entry.position))
    if not positions:
        return "nothing is recorded yet"
    named = ", ".join(positions[-_NAMED_MAX:])
    return f"nothing is recorded there; recorded are {'..., ' if len(positions) > _NAMED_MAX else ''}{named}"


# --- repair -------------------------------------------------------------------------------------------------------


def decide_find_step(turn: Turn, op: FindStep) -> Coder | DurableError:
    """The coder of a recorded result. Raises `WorkflowNotFound`."""
    record = turn.state.record(op.id)
    if record.status in (WorkflowStatus.SUCCEEDED, WorkflowStatus.CANCELLED):
        return WorkflowTerminated(record.id, record.status.value)
    history = turn.state.chronicle.of(record.key)
    target = _recorded_at(history, op.position)
    if target is None:
        return CannotRepair(record.id, op.position, _nothing_to_repair(history, op.position))
    # Up to the entry in question, which may be what cannot be read.
    before = [entry for entry in effective(history) if entry.seq < target.seq or entry.kind is EntryKind.PATCH]
    tried = _try(turn, record, before)
    if isinstance(tried, _Misfit):
        return CannotRepair(record.id, op.position, tried.detail)
    wait = tried.waits.get(op.position)
    if wait is None or (wait.kind, wait.name) != (target.kind, target.name):
        return CannotRepair(record.id, op.position, f"the code at hand does not wait for {target.name} there")
    coder = tried.session.coder_of(wait.op)
    if coder is None:
        return CannotRepair(record.id, op.position, f"a {target.kind.value} has no result that could be replaced")
    return coder


def decide_repair_workflow(turn: Turn, op: RepairWorkflow) -> DurableError | None:
    """Replace a result, and go on with it unless the workflow has failed: then it can be retried."""
    coder = decide_find_step(turn, FindStep(op.id, op.position))
    if isinstance(coder, DurableError):
        return coder
    try:
        check_payload(turn, coder.where, op.value)
        coder.unpack(op.value)
    except (CodecError, PayloadTooLarge) as error:
        return error
    state = turn.state
    record = state.record(op.id)
    history = state.chronicle.of(record.key)
    target = _recorded_at(history, op.position)
    assert target is not None, "it was found just now"
    text = Repair.text(target.seq, op.value, op.reason)
    seq = last_seq(history) + 1
    note = HistoryEntry(seq, op.position, EntryKind.REPAIRED, target.name, EntryStatus.OK, text, turn.now)
    tried = _try(turn, record, [*history, note])
    # More than one result may be unreadable: then they are replaced one after the other, and it is parked meanwhile.
    are_more = isinstance(tried, _Misfit) and tried.reason is record.park_reason is ParkReason.UNREADABLE
    if isinstance(tried, _Misfit) and not are_more:
        return CannotRepair(record.id, op.position, tried.detail)
    stop_activities(turn, record)
    state.unload(record.key)
    state.chronicle.add(record.key, [note])
    if not record.status.is_terminal and record.park_reason is not ParkReason.CRASHED:
        load(turn, state.by_key(record.key) or record)
    return None


def _nothing_to_repair(history: list[HistoryEntry], position: str) -> str:
    recorded = effective(history)
    needed = {entry.seq for entry in Past(history).entries}
    if any(entry.position == position and entry.seq not in needed for entry in recorded):
        return "its round is over: what it has learnt is in the state of the round after it"
    return _nothing_there(recorded)


def _recorded_at(history: list[HistoryEntry], position: str) -> HistoryEntry | None:
    """The result that is recorded at a position, as it stands now."""
    found = [entry for entry in Past(history).entries if entry.position == position and entry.kind not in NOTES]
    return found[-1] if found and found[-1].status is not EntryStatus.RETRY else None


# --- all of them --------------------------------------------------------------------------------------------------


class _Tried(NamedTuple):
    """What a history comes to under the code at hand. The body is thrown away."""

    session: WorkflowSessionRunner
    waits: dict[str, WaitCondition]
    result: SessionResult


class _Misfit(NamedTuple):
    """Why a history does not fit the code at hand."""

    reason: ParkReason
    detail: str


def _try(turn: Turn, record: WorkflowRecord, history: Sequence[HistoryEntry]) -> _Tried | _Misfit:
    """What comes of a history, or why it does not fit."""
    try:
        session, result = rebuild(turn, record, history)
    except (InvariantViolated, StorageError):
        raise
    except Exception as error:
        return _Misfit(*parking_of(error))
    # One that only undoes has failed again.
    tried = _Tried(session, dict(session.waits), session.undone_failure or result)
    session.close()
    return tried
