"""Records as rows: the columns of each table, and the way there and back.

Knows records and columns. Knows nothing about connections, transactions, or why a row is read. A row that cannot become
a record raises `CodecError`, which names the table and the row, so that the caller can leave out that row only.

For each table there is a function that makes a row (`event_row`), one that builds a record (`_event`), and a `Table`
with the columns in the same order (`EVENT`).
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable
from typing import TypeVar

from durable.backends.base import Attached
from durable.backends.sql.tables import Row, Table
from durable.model.ids import check_text
from durable.model.position import Place
from durable.model.records import (
    CancelCause,
    DeliveryMode,
    EntryKind,
    EntryStatus,
    EventWait,
    HistoryEntry,
    OnParentClose,
    OpenPause,
    ParkReason,
    PendingEvent,
    Progress,
    Question,
    SentEvent,
    WorkflowRecord,
    WorkflowStatus,
)
from durable.model.timers import OF_SCHEDULE, OF_WORKFLOW, ScheduleKey, Timer

E = TypeVar("E", bound=enum.Enum)


def _by_value(kind: type[E]) -> dict[str, E]:
    """The members by value. A lookup in a dict is five times faster than calling the enum class."""
    return {member.value: member for member in kind}


_STATUSES = _by_value(WorkflowStatus)
_REASONS = _by_value(ParkReason)
_KINDS = _by_value(EntryKind)
_OUTCOMES = _by_value(EntryStatus)
_MODES = _by_value(DeliveryMode)
_CLOSES = _by_value(OnParentClose)
_CAUSES = _by_value(CancelCause)


def to_json(value: Iterable[object]) -> str:
    """A list as JSON text."""
    return json.dumps(list(value), ensure_ascii=False, separators=(",", ":"))


def _tags(text: str) -> tuple[str, ...]:
    """The tags in a JSON text. The quick exit is the common case: no tags."""
    if text == "[]":
        return ()
    tags = json.loads(text)
    if not isinstance(tags, list):
        raise ValueError("tags are not a list of texts")
    # JSON can contain a lone surrogate, which could not be written back.
    return tuple(check_text("tag", tag) for tag in tags)


def _cursors(text: str) -> tuple[tuple[str, str, int], ...]:
    """The old form of taken broadcasts in a JSON text: a list of [name, key, serial]."""
    if text == "[]":
        return ()
    cursors = json.loads(text)
    if not isinstance(cursors, list) or not all(_is_cursor(cursor) for cursor in cursors):
        raise ValueError("cursors are not a list of [name, key, serial]")
    return tuple(
        (check_text("name", name), event_key and check_text("key", event_key), serial)
        for name, event_key, serial in cursors
    )


def _is_cursor(value: object) -> bool:
    return isinstance(value, list) and [type(part) for part in value] == [str, str, int]


def _place(text: str | None) -> str | None:
    if text is not None and Place.parse(text) is None:
        raise ValueError(f"parent_place {text!r:.100} is not a place in a workflow")
    return text


# --- workflow -----------------------------------------------------------------------------------------------------


def workflow_row(record: WorkflowRecord) -> Row:
    """The row of a workflow, in the order of `WORKFLOW.columns`."""
    # `_value_` instead of `.value`: the property costs as much as the rest of the tuple.
    return (
        record.key,
        record.id,
        record.name,
        record.version,
        record.status._value_,
        record.input,
        record.start_digest,
        record.created_at,
        record.start_at,
        record.wake_at,
        record.finished_at,
        record.result,
        record.error,
        record.parent_key,
        record.parent_place,
        record.depth,
        record.round,
        to_json(record.tags) if record.tags else "[]",
        # 0: no cancel requested; 1: requested; 2: requested, and `Cancelled` is not raised in the body yet.
        record.cancel_requested + record.cancel_pending,
        record.cancel_reason,
        record.crashes,
        None if record.park_reason is None else record.park_reason._value_,
        record.park_detail,
        None if record.on_parent_close is None else record.on_parent_close._value_,
        to_json(record.cursors) if record.cursors else "[]",
        record.position_format,
        None if record.cancel_cause is None else record.cancel_cause._value_,
    )


# The columns that change during the life of a workflow. The others are set when it starts, or starts again with an
# empty history.
CHANGING = (
    "status", "wake_at", "finished_at", "result", "error", "cancel_requested", "cancel_reason", "crashes",
    "park_reason", "park_detail", "cursors", "cancel_cause",
)  # fmt: skip


def change_row(record: WorkflowRecord) -> Row:
    """The changing columns of a workflow, in the order of `CHANGING`, followed by its key."""
    return (
        record.status._value_,
        record.wake_at,
        record.finished_at,
        record.result,
        record.error,
        record.cancel_requested + record.cancel_pending,
        record.cancel_reason,
        record.crashes,
        None if record.park_reason is None else record.park_reason._value_,
        record.park_detail,
        to_json(record.cursors) if record.cursors else "[]",
        None if record.cancel_cause is None else record.cancel_cause._value_,
        record.key,
    )


def _workflow(row: Row) -> WorkflowRecord:
    """The record of a row with the columns of `WORKFLOW.columns`."""
    reason, on_close, cause = row[21], row[23], row[26]
    return WorkflowRecord(
        key=row[0],
        # An id that was edited by hand is checked like one from the API: in another product an empty id once started
        # the same workflow again and again for a month.
        id=check_text("id", row[1]),
        name=row[2],
        version=row[3],
        status=_STATUSES[row[4]],
        input=row[5],
        start_digest=row[6],
        created_at=row[7],
        start_at=row[8],
        wake_at=row[9],
        finished_at=row[10],
        result=row[11],
        error=row[12],
        parent_key=row[13],
        parent_place=_place(row[14]),
        depth=row[15],
        round=row[16],
        tags=_tags(row[17]),
        cancel_requested=bool(row[18]),
        cancel_pending=row[18] > 1,
        cancel_reason=row[19],
        crashes=row[20],
        park_reason=None if reason is None else _REASONS[reason],
        park_detail=row[22],
        on_parent_close=None if on_close is None else _CLOSES[on_close],
        cursors=_cursors(row[24]),
        position_format=row[25],
        cancel_cause=None if cause is None else _CAUSES[cause],
    )


WORKFLOW = Table(
    "workflow",
    "key:count id:text name:text version:count status:text input:text start_digest:text created_at:instant "
    "start_at:instant wake_at:instant? finished_at:instant? result:text? error:text? parent_key:count? "
    "parent_place:text? depth:count round:count tags:text cancel_requested:int cancel_reason:text? crashes:count "
    "park_reason:text? park_detail:text? on_parent_close:text? cursors:text position_format:count "
    "cancel_cause:text?",
    ("id",),
    _workflow,
)


# --- history ------------------------------------------------------------------------------------------------------


def history_rows(entries: Iterable[tuple[int, HistoryEntry]]) -> list[Row]:
    """The rows of entries, each with the key of its workflow. All in one call, because this is the hottest table."""
    return [
        (key, seq, position, kind._value_, name, status._value_, outcome, at, retry_at)
        for key, (seq, position, kind, name, status, outcome, at, retry_at) in entries
    ]


def _history(row: Row) -> HistoryEntry:
    _, seq, position, kind, name, status, outcome, at, retry_at = row
    return HistoryEntry(seq, position, _KINDS[kind], name, _OUTCOMES[status], outcome, at, retry_at)


HISTORY = Table(
    "history",
    "workflow:count seq:count position:text kind:text name:text status:text outcome:text at:instant retry_at:instant?",
    ("workflow", "seq"),
    _history,
)


# --- events -------------------------------------------------------------------------------------------------------


def wait_row(wait: EventWait) -> Row:
    """The row of an event wait, without the columns of `QUESTION`, which only a pause has."""
    return (wait.workflow_key, wait.position, wait.name, wait.event_key, wait.mode._value_, wait.serial, wait.since)


def pause_rows(waits: Iterable[EventWait]) -> list[Row]:
    """The full rows of those waits that are pauses."""
    pauses = [(wait, wait.question) for wait in waits if wait.question is not None]
    return [(*wait_row(wait), question.prompt, question.expects, question.expires_at) for wait, question in pauses]


def _wait(row: Row) -> EventWait:
    """The event wait in a row. It is a pause if it has a prompt."""
    key, position, name, event_key, mode, serial, since, prompt, expects, expires_at = row
    return EventWait(
        workflow_key=key,
        position=position,
        name=name,
        event_key=event_key,
        mode=_MODES[mode],
        serial=serial,
        since=since,
        question=None if prompt is None else Question(prompt, expects or "", expires_at),
    )


_WAIT = (
    "workflow:count position:text name:text event_key:text mode:text serial:count since:instant "
    "prompt:text? expects:text? expires_at:instant?"
)
WAIT = Table("event_wait", _WAIT, ("workflow", "position"), _wait)
# The columns that only a pause has. Writing them as NULL would make other waits a third more expensive.
QUESTION = ("prompt", "expects", "expires_at")


def _pause(row: Row) -> OpenPause:
    id, name, round, status = row[-4:]
    return OpenPause.of(_wait(row[:-4]), id=id, name=name, round=round, status=_STATUSES[status])


# Not a separate table: a wait, joined with the columns of its workflow that people need.
PAUSE = Table(
    "event_wait", f"{_WAIT} id:text workflow_name:text round:count status:text", ("workflow", "position"), _pause
)


def event_row(event: PendingEvent) -> Row:
    """The row of a pending event, in the order of `EVENT.columns`."""
    return (
        event.serial,
        event.name,
        event.event_key,
        event.target,
        event.unstarted,
        event.payload,
        event.sent_at,
        event.expires_at,
        int(event.consume),
        event.since,
        int(event.taken),
    )


def _event(row: Row) -> PendingEvent:
    """The pending event in a row."""
    serial, name, event_key, target, unstarted, payload, sent_at, expires_at, consume, since, taken = row
    return PendingEvent(
        serial=serial,
        name=name,
        event_key=event_key,
        target=target,
        unstarted=unstarted,
        payload=payload,
        sent_at=sent_at,
        expires_at=expires_at,
        consume=bool(consume),
        since=since,
        taken=bool(taken),
    )


EVENT = Table(
    "pending_event",
    # `expires_at` may be after the year 9999. Such an event never expires.
    "serial:count name:text event_key:text target:count? unstarted:text? payload:text sent_at:instant expires_at:int? "
    "consume:int since:instant taken:int",
    ("serial",),
    _event,
)


def sent_row(sent: SentEvent) -> Row:
    """The row of an event id of a sender."""
    return (sent.event_id, sent.digest, sent.reply, sent.at)


def _sent(row: Row) -> SentEvent:
    event_id, digest, reply, at = row
    return SentEvent(event_id=event_id, digest=digest, reply=reply, at=at)


SENT = Table("sent_event", "event_id:text digest:text reply:text at:instant", ("event_id",), _sent)


def progress_row(progress: Progress) -> Row:
    """The row of the last value that a workflow has published."""
    return (progress.workflow_key, progress.round, progress.seq, progress.value, progress.at)


def _progress(row: Row) -> Progress:
    key, round, seq, value, at = row
    return Progress(workflow_key=key, round=round, seq=seq, value=value, at=at)


PROGRESS = Table("progress", "workflow:count round:count seq:count value:text at:instant", ("workflow",), _progress)


def _suspect(row: Row) -> tuple[int, int]:
    key, crashes = row
    return (key, crashes)


SUSPECT = Table("suspect", "workflow:count crashes:count", ("workflow",), _suspect)


def _timer(row: Row) -> Timer:
    wake_at, kind, key = row
    return (wake_at, OF_WORKFLOW, key) if kind == OF_WORKFLOW else (wake_at, OF_SCHEDULE, ScheduleKey(key))


def _attached(row: Row) -> Attached:
    key, has_history, has_waits, has_mail = row
    return Attached(key, bool(has_history), bool(has_waits), bool(has_mail))


# Not a table: what others have for a workflow.
ATTACHED = Table("workflow", "key:count has_history:int has_waits:int has_mail:int", ("key",), _attached)

# Not separate tables: the deadlines and ids of `workflow`, and the next ticks of `schedule`.
TIMER = Table("workflow", "wake_at:instant kind:text key:int", ("key",), _timer)
ID: Table[str] = Table("workflow", "id:text", ("id",), lambda row: row[0])
