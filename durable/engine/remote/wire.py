"""The JSON form of every operation that a caller can make, of its reply, and of an error. The package says why.

`OPERATIONS` is the table. A new operation gets a line in it; its form follows from its annotations.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from cattrs import Converter

from durable.engine import operations as ops
from durable.engine.operations import ExpireWorkflows, ReadLetter, ReadRecovery, RecoverNext, events, own, repairs
from durable.engine.operations.forms import Form, form_converter, part_of, read_named, read_value
from durable.engine.operations.forms import TypeName as TypeName
from durable.engine.operations.forms import read_text as read_text
from durable.engine.operations.forms import write_text as write_text
from durable.engine.operations.requests import DecideKept
from durable.engine.remote import errors

A = TypeVar("A")

# The operations that callers can make, by the names under which they travel. A name is never reused for another one.
OPERATIONS: Mapping[str, type[ops.Operation[Any]]] = {
    "start_workflow": ops.StartWorkflow,
    "send_event": ops.SendEvent,
    "cancel_workflow": ops.CancelWorkflow,
    "terminate_workflow": ops.TerminateWorkflow,
    "find_workflow": ops.FindWorkflow,
    "await_end": ops.AwaitEnd,
    "read_progress": ops.ReadProgress,
    "await_change": ops.AwaitChange,
    "list_workflows": ops.ListWorkflows,
    "count_workflows": ops.CountWorkflows,
    "read_history": ops.ReadHistory,
    "describe_workflow": ops.DescribeWorkflow,
    "purge_workflows": ops.PurgeWorkflows,
    "retry_workflow": repairs.RetryWorkflow,
    "fork_workflow": repairs.ForkWorkflow,
    "repair_workflow": repairs.RepairWorkflow,
    "list_pauses": ops.ListPauses,
    "resume_pause": ops.ResumePause,
    "cancel_pause": ops.CancelPause,
    "create_schedule": ops.CreateSchedule,
    "pause_schedule": ops.PauseSchedule,
    "resume_schedule": ops.ResumeSchedule,
    "trigger_schedule": ops.TriggerSchedule,
    "delete_schedule": ops.DeleteSchedule,
    "list_schedules": ops.ListSchedules,
    "list_events": events.ListEvents,
    "remove_event": events.RemoveEvent,
    "list_letters": events.ListLetters,
    "replay_letter": events.ReplayLetter,
    "remove_letter": events.RemoveLetter,
}
# Those that change nothing. They need no request id, and a store without an engine can answer them too.
READS: frozenset[type[ops.Operation[Any]]] = frozenset(
    {
        ops.FindWorkflow,
        ops.AwaitEnd,
        ops.ReadProgress,
        ops.AwaitChange,
        ops.ListWorkflows,
        ops.CountWorkflows,
        ops.ReadHistory,
        ops.DescribeWorkflow,
        ops.ListPauses,
        ops.ListSchedules,
        events.ListEvents,
        events.ListLetters,
    }
)
# Operations that only an engine makes, for itself. They never travel.
OWN: frozenset[type[ops.Operation[Any]]] = frozenset(
    {
        ops.RecordActivity,
        ops.BeginAttempt,
        ops.WakeWorkflow,
        ops.TickSchedule,
        ops.ResumeWorkflow,
        ops.RecoverWorkflows,
        ops.SweepEvents,
        ReadRecovery,
        RecoverNext,
        own.CheckWaits,
        ExpireWorkflows,
        ReadLetter,
        DecideKept,
    }
)
_NAMES: dict[type[ops.Operation[Any]], str] = {kind: name for name, kind in OPERATIONS.items()}


def name_of(operation: ops.Operation[Any]) -> str:
    """The name under which an operation of a caller travels."""
    return _NAMES[type(operation)]


# --- forms --------------------------------------------------------------------------------------------------------


def write_operation(operation: ops.Operation[Any]) -> Form:
    """The form of an operation that a caller can make."""
    kind = type(operation)
    return {"operation": name_of(operation), "fields": _converter().unstructure(operation, unstructure_as=kind)}


def read_operation(form: Form) -> ops.Operation[Any]:
    """The operation of a form, as it was sent; `receiving` completes it. Raises `NotSupported` or `CodecError`."""
    operation: ops.Operation[Any] = read_named(_converter(), form, "operation", OPERATIONS)
    return operation


def write_reply(kind: type[ops.Operation[A]], reply: A) -> Form:
    """The form of the reply to an operation of this kind."""
    return {"reply": _converter().unstructure(reply, unstructure_as=reply_type(kind))}


def write_error(error: BaseException) -> Form:
    """The form of an error that was raised instead of a reply."""
    return {"error": errors.write_error(_converter(), error)}


def write_answer(kind: type[ops.Operation[Any]], reply: Any, error: BaseException | None) -> str:
    """The answer to an operation of this kind as one line of JSON: its error, or else its reply."""
    return write_text(write_reply(kind, reply) if error is None else write_error(error))


def read_answer(kind: type[ops.Operation[A]], form: Form) -> A:
    """The reply to an operation of this kind. Raises the error that came instead of it, or `CodecError`."""
    if "error" in form:
        raise read_value(_converter(), form["error"], BaseException, "error")
    reply: A = read_value(_converter(), part_of(form, "reply"), reply_type(kind), f"reply to {_NAMES[kind]}")
    return reply


def reply_type(kind: type[ops.Operation[Any]]) -> Any:
    """The type of the reply to an operation: `A` of an `Operation[A]`."""
    (base,) = kind.__orig_bases__  # type: ignore[attr-defined]  # every operation is subscripted
    return get_args(base)[0]


@functools.cache
def _converter() -> Converter:
    """The converter for everything that travels. Made on first use, because it generates and compiles code."""
    converter = form_converter()
    errors.register(converter)
    return converter
