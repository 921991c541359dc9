"""One example of everything that is stored in a row, as plain values: the contents of `golden.json`.

`python -m tests.formats.golden` writes that file. Do it only for a format that was changed on purpose, together with a
migration, and read the difference.
"""

from __future__ import annotations

import json
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

from durable import CatchUp, Overlap, PauseExpired, WorkflowStatus, WorkflowTerminated
from durable.backends.sql import mail_rows, request_rows, rows, schedule_rows
from durable.backends.sqlite.schema import SCHEMA_VERSION
from durable.model.dead_letters import DeadLetter, DeadLetterReason
from durable.model.error_codec import pack_error
from durable.model.ids import digest
from durable.model.position import branch_label, child_id, place
from durable.model.records import (
    BY_KEY,
    CancelCause,
    DeliveryMode,
    EntryKind,
    EntryStatus,
    EventWait,
    HistoryEntry,
    OnParentClose,
    ParkReason,
    PendingEvent,
    Progress,
    Question,
    SentEvent,
    TakenBroadcast,
    WorkflowRecord,
)
from durable.model.requests import KeptRequest, StoredAnswer
from durable.model.schedule import Job, Plan, ScheduleRecord
from durable.model.timers import ScheduleKey
from durable.runner.past import Forked, Repair, Retried, RoundState
from tests.formats.flows import Declined

GOLDEN = Path(__file__).with_name("golden.json")
ENUMS: tuple[type[Enum], ...] = (
    WorkflowStatus, ParkReason, CancelCause, OnParentClose, EntryKind, EntryStatus, DeliveryMode, DeadLetterReason,
    Overlap, CatchUp,
)  # fmt: skip
WORKFLOW = WorkflowRecord(
    key=7, id="order-42", name="checkout", version=2, status=WorkflowStatus.PARKED, input='{"order":1}',
    start_digest="0a1b", created_at=1, start_at=2, wake_at=3, finished_at=4, result='"done"', error="{}", parent_key=5,
    parent_place="1:4.left.0", on_parent_close=OnParentClose.CANCEL, depth=6, round=7, tags=("eu", "☃"),
    cancel_requested=True, cancel_pending=True, cancel_reason="enough", cancel_cause=CancelCause.PARENT_ENDED,
    crashes=2, park_reason=ParkReason.DIVERGED, park_detail="at 4", cursors=(("paid", "k", 9),),
    position_format=BY_KEY,
)  # fmt: skip
SCHEDULE = ScheduleRecord(
    key=ScheduleKey(-3), name="nightly", job=Job(plan=Plan.of("0 3 * * *", None), workflow="report", input="{}"),
    created_at=1, anchor=2, done_until=3, next_at=4, wake_at=5, queued=6, skipped=7, last_tick=8, last_key=9,
    last_id="nightly@1",
)  # fmt: skip


def error_text(error: BaseException) -> Any:
    """What is stored of an error, without the traceback."""
    return {name: value for name, value in json.loads(pack_error(error)).items() if name != "traceback"}


def formats() -> dict[str, Any]:
    """One example of everything, by name."""
    wait = EventWait(workflow_key=7, position="4.left.0", name="paid", event_key="k", serial=8, since=9)
    question = Question('"Pay?"', "bool", 10)
    pause = EventWait(workflow_key=7, position="0", name="", serial=8, since=9, question=question)
    event = PendingEvent(serial=1, name="paid", event_key="k", payload="5", sent_at=2, expires_at=3)
    entry = HistoryEntry(1, "0", EntryKind.ACTIVITY, "charge", EntryStatus.RETRY, "{}", 5, 6)
    letter = DeadLetter(
        id=1, name="paid", event_key="k", workflow_id="w", payload_json="5", sent_at_us=2, died_at_us=3,
        reason=DeadLetterReason.UNREADABLE, detail="why", status=WorkflowStatus.FAILED, is_broadcast=True,
    )  # fmt: skip
    refused = Declined(7)
    refused.args = (Decimal("1.5"), ParkReason.CRASHED)
    refused.add_note("a note")
    return {
        "schema": SCHEMA_VERSION,
        "enums": {kind.__name__: {member.name: member.value for member in kind} for kind in ENUMS},
        "workflow": dict(zip(rows.WORKFLOW.columns, rows.workflow_row(WORKFLOW), strict=True)),
        "history": rows.history_rows([(7, entry)]),
        "wait": rows.wait_row(wait),
        "pause": rows.pause_rows([pause]),
        "event": rows.event_row(event),
        "letter": mail_rows.letter_row(letter),
        "taken": mail_rows.taken_row(TakenBroadcast(workflow_key=7, name="paid", event_key="k", serial=9)),
        "sent": rows.sent_row(SentEvent(event_id="e-1", digest="0a1b", reply='{"to":["w"]}', at=5)),
        "answer": request_rows.answer_row(StoredAnswer(request_id="r-1", text='{"reply":null}', at=5)),
        "kept": request_rows.kept_row(KeptRequest(number=1, request_id="r-1", operation='{"fields":{}}', at=5)),
        "progress": rows.progress_row(Progress(workflow_key=7, round=1, seq=2, value="5", at=6)),
        "schedule": schedule_rows.schedule_row(SCHEDULE),
        "errors": [
            error_text(PauseExpired("w", "0")),
            error_text(WorkflowTerminated("w", WorkflowStatus.FAILED)),
            error_text(refused),
        ],
        "notes": [
            RoundState.text(3, "[1]"),
            Repair.text(4, "7", "why"),
            Retried([1, 2], 5).text(),
            Forked("w", 6).text(),
        ],
        "positions": [branch_label(2), branch_label("left"), branch_label("a.b"), branch_label("7"), branch_label("u")],
        "places": [place(0, "4.1"), place(2, "4.1"), child_id("w", 0, "4.1"), child_id("w", 2, "4.1")],
        "digest": digest("checkout", '{"order":1}'),
    }


def written(value: Any) -> Any:
    """A value after a round trip through JSON."""
    return json.loads(json.dumps(value))


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(formats(), indent=1, ensure_ascii=False) + "\n")
