"""One example of everything that is sent between processes: the contents of `wire.json`.

`python -m tests.formats.wire` writes that file. Do it only when a form was added or changed on purpose, and read the
difference: engines and clients of the version before must still understand it.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import attrs

import durable
from durable import (
    AllFailed,
    CannotRepair,
    CannotRetry,
    CodecError,
    Delivered,
    Description,
    FailedUndo,
    HistoryEntry,
    OpenPause,
    OwedUndo,
    ParkReason,
    PauseExpired,
    PendingEventInfo,
    Queued,
    RemoteError,
    Waiting,
    WorkflowAlreadyExists,
    WorkflowStatus,
    WorkflowSummary,
    WorkflowTerminated,
)
from durable.backends.base import Background, Workflows
from durable.engine import operations as ops
from durable.engine.operations import events, repairs
from durable.engine.remote import wire
from durable.model.dead_letters import DeadLetter, DeadLetterReason
from durable.model.records import EntryKind, EntryStatus, Progress
from durable.model.schedule import Job, Plan
from tests.formats.golden import SCHEDULE, WORKFLOW

GOLDEN = Path(__file__).with_name("wire.json")
NOON = datetime(2031, 5, 17, 12, 0, 0, 5, tzinfo=timezone.utc)
QUERY = Workflows(
    statuses=(WorkflowStatus.FAILED,),
    name="checkout",
    tag="eu",
    created_since=-5,
    created_until=5,
    id_prefix="order-",
    parent="p",
    limit=9,
)
SUMMARY = WorkflowSummary(
    id="order-42", name="checkout", version=2, status=WorkflowStatus.PARKED, created_at=NOON, finished_at=None,
    wake_at=NOON, tags=("eu",), parked="at 4", error="ValueError: x", parent="p", progress={"done": 1},
)  # fmt: skip
DESCRIPTION = Description(
    summary=SUMMARY,
    waits=(
        Waiting(
            position="4", kind="activity", name="charge", since=NOON, until=NOON, attempt=2, last_error="x",
            source="shop.py:7", is_running=True,
        ),
    ),
    history_length=3, round=1, pending_events=2, park_reason=ParkReason.DIVERGED, problem="why",
    cancel_requested=True, owed_undos=(OwedUndo(position="1", step="charge", undo="refund"),),
    failed_undos=(FailedUndo(position="2", step="ship", undo="call back", error_type="ValueError", message="x"),),
    children=("order-42/0",), key=7,
)  # fmt: skip
ENTRY = HistoryEntry(1, "0", EntryKind.ACTIVITY, "charge", EntryStatus.RETRY, "{}", 5, 6)
PAUSE = OpenPause(
    number=8, workflow_id="w", name="checkout", status=WorkflowStatus.SUSPENDED, pause_id="0", prompt=["Pay?", 5],
    expects="bool", since_us=9, expires_at_us=None,
)  # fmt: skip
PENDING = PendingEventInfo(
    id=1, name="paid", key="k", to="w", payload={"n": 5}, sent_at=NOON, expires_at=None, is_broadcast=False
)  # fmt: skip
LETTER = DeadLetter(
    id=1, name="paid", event_key="k", workflow_id="w", payload_json="5", sent_at_us=2, died_at_us=3,
    reason=DeadLetterReason.UNREADABLE, detail="why", status=WorkflowStatus.FAILED, is_broadcast=True,
)  # fmt: skip
JOB = Job(plan=Plan.of("0 3 * * *", None, "Europe/Berlin"), workflow="report", version=2, input="{}")
SIGHT = ops.Sight(WorkflowStatus.RUNNING, '{"done":1}', 7)
START = ops.StartWorkflow(id="order-42", name="checkout", version=2, input='{"order":1}', delay=3, tags=("eu", "☃"))
SEND = ops.SendEvent(
    name="paid", event_key="k", payload="5", to="w", allow_unstarted=True, consume=False, expire_after=9,
    event_id="e-1", by_name=True, force=True, payload_type=datetime,
)  # fmt: skip

# Every operation that a caller can make, each with a reply of every type it may have.
EXAMPLES: tuple[tuple[ops.Operation[Any], tuple[Any, ...]], ...] = (
    (START, (WORKFLOW,)),
    (SEND, (Delivered(("w", "v")), Queued())),
    (ops.CancelWorkflow("w", "enough"), (True,)),
    (ops.TerminateWorkflow("w"), (False,)),
    (ops.FindWorkflow("w"), (WORKFLOW, None)),
    (ops.AwaitEnd("w", wait_if_parked=False), (WORKFLOW,)),
    (ops.ReadProgress("w"), (Progress(workflow_key=7, round=1, seq=2, value="5", at=6), None)),
    (ops.AwaitChange("w", SIGHT), (SIGHT,)),
    (ops.ListWorkflows(QUERY, "v"), ([ops.Listed(WORKFLOW, Background(7, "p", "5"))],)),
    (ops.CountWorkflows(QUERY), (5,)),
    (ops.ReadHistory("w"), ([ENTRY],)),
    (ops.DescribeWorkflow("w"), (DESCRIPTION,)),
    (ops.PurgeWorkflows(9), (3,)),
    (repairs.RetryWorkflow("w", "why"), (CannotRetry("w", "why"), None)),
    (repairs.ForkWorkflow("w", "4.left.0", "f"), (WorkflowAlreadyExists("f", "checkout"), None)),
    (repairs.RepairWorkflow("w", "0", "77", "why", "int"), (CannotRepair("w", "0", "why"), None)),
    (ops.ListPauses(workflow_id="w", name="checkout", after=0, limit=9), ([PAUSE],)),
    (ops.ResumePause("w", "0", '{"ok":true}', "Decision"), (CodecError("pause: answer", "why"), None)),
    (ops.CancelPause("w", "0", "why"), (PauseExpired("w", "0"), None)),
    (ops.CreateSchedule(name="nightly", job=JOB, replace=True), (SCHEDULE,)),
    (ops.PauseSchedule("nightly"), (None,)),
    (ops.ResumeSchedule("nightly"), (None,)),
    (ops.TriggerSchedule("nightly", "now"), (WORKFLOW,)),
    (ops.DeleteSchedule("nightly"), (None,)),
    (ops.ListSchedules("daily", 9), ([SCHEDULE],)),
    (events.ListEvents(name="paid", to="w", after=0, limit=9), ([PENDING],)),
    (events.RemoveEvent(1), (None,)),
    (events.ListLetters(0, 9), ([LETTER],)),
    (events.ReplayLetter(1, "w"), (Delivered(("w",)), Queued())),
    (events.RemoveLetter(1), (None,)),
)


# --- errors -------------------------------------------------------------------------------------------------------

_SAMPLES = (("str", "sample"), ("int", 3), ("float", 3.5))
_SPECIAL: dict[type[BaseException], BaseException] = {
    AllFailed: AllFailed({0: PauseExpired("w", "0"), "left": CodecError("here", "no")}),
    RemoteError: RemoteError("durable.Newer", {"size": 5}, "too new"),
    WorkflowTerminated: WorkflowTerminated("w", WorkflowStatus.FAILED),
    durable.RetryAfter: durable.RetryAfter(2.5, "later"),
}


def public_errors() -> list[type[BaseException]]:
    """Every class of errors that users see."""
    public = [getattr(durable, name) for name in durable.__all__]
    return [name for name in public if isinstance(name, type) and issubclass(name, BaseException)]


def example_of(kind: Any) -> BaseException:
    """An error of a class, with a value in every field."""
    if kind in _SPECIAL:
        return _SPECIAL[kind]
    types = [str(field.type) for field in attrs.fields(kind)] if attrs.has(kind) else []
    values = [next(value for name, value in _SAMPLES if name in kind) for kind in types]
    error: BaseException = kind(*values or ["why"])
    return error


# --- forms --------------------------------------------------------------------------------------------------------


def forms() -> dict[str, Any]:
    """The form of every example, by name."""
    travelling: dict[str, Any] = {}
    for operation, replies in EXAMPLES:
        form = wire.write_operation(operation)
        replied = [wire.write_reply(type(operation), reply) for reply in replies]
        travelling[form["operation"]] = {**form, "replies": replied}
    errors = [wire.write_error(example_of(kind))["error"] for kind in public_errors()]
    return travelling | {error["name"]: error for error in errors}


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(forms(), indent=1, ensure_ascii=False) + "\n")
