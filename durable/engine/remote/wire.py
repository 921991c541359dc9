"""The JSON form of every operation that a caller can make, of its reply, and of an error. The package says why.

`OPERATIONS` is the table. A new operation gets a line in it; its form follows from its annotations.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, TypeVar, get_args

import attrs
from cattrs import Converter, transform_error
from cattrs.cols import is_namedtuple, namedtuple_dict_structure_factory, namedtuple_dict_unstructure_factory
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override
from msgspec.json import decode, encode

from durable.engine import operations as ops
from durable.engine.operations import ExpireWorkflows, ReadRecovery, RecoverNext, events, own, repairs
from durable.engine.remote import errors
from durable.errors import CodecError, NotSupported
from durable.model.shapes.converter import Misfit, make_converter
from durable.model.shapes.sameness import show
from durable.model.version import VERSION

Form = dict[str, Any]
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
    }
)
_NAMES: dict[type[ops.Operation[Any]], str] = {kind: name for name, kind in OPERATIONS.items()}


# --- forms --------------------------------------------------------------------------------------------------------


def write_operation(operation: ops.Operation[Any]) -> Form:
    """The form of an operation that a caller can make."""
    kind = type(operation)
    return {"operation": _NAMES[kind], "fields": _converter().unstructure(operation, unstructure_as=kind)}


def read_operation(form: Form) -> ops.Operation[Any]:
    """The operation of a form, as it was sent; `receiving` completes it. Raises `NotSupported` or `CodecError`."""
    name = _part(form, "operation")
    if not isinstance(name, str) or name not in OPERATIONS:
        raise NotSupported(name if isinstance(name, str) else show(name), VERSION)
    operation: ops.Operation[Any] = _read(_part(form, "fields"), OPERATIONS[name], name)
    return operation


def write_reply(kind: type[ops.Operation[A]], reply: A) -> Form:
    """The form of the reply to an operation of this kind."""
    return {"reply": _converter().unstructure(reply, unstructure_as=reply_type(kind))}


def write_error(error: BaseException) -> Form:
    """The form of an error that was raised instead of a reply."""
    return {"error": errors.write_error(_converter(), error)}


def read_answer(kind: type[ops.Operation[A]], form: Form) -> A:
    """The reply to an operation of this kind. Raises the error that came instead of it, or `CodecError`."""
    if "error" in form:
        raise _read(form["error"], BaseException, "error")
    reply: A = _read(_part(form, "reply"), reply_type(kind), f"reply to {_NAMES[kind]}")
    return reply


def reply_type(kind: type[ops.Operation[Any]]) -> Any:
    """The type of the reply to an operation: `A` of an `Operation[A]`."""
    (base,) = kind.__orig_bases__  # type: ignore[attr-defined]  # every operation is subscripted
    return get_args(base)[0]


def write_text(form: Form) -> str:
    """A form as one line of JSON."""
    return encode(form).decode()


def read_text(text: str | bytes) -> Form:
    """The form in a line of JSON. Raises `CodecError` if it is not a JSON object."""
    try:
        form = decode(text)
    except Exception as error:
        raise CodecError("wire", f"{show(text)} is not JSON") from error
    if type(form) is not dict:
        raise CodecError("wire", f"expected an object, got {show(form)}")
    return form


def _part(form: Form, name: str) -> Any:
    if name not in form:
        raise CodecError("wire", f"{name!r} is missing in {show(form)}")
    return form[name]


def _read(data: Any, annotation: Any, where: str) -> Any:
    try:
        return _converter().structure(data, annotation)
    except Exception as error:
        problems = transform_error(error, where, format_exception=_in_words)
        raise CodecError("wire", "; ".join(problems)) from error


def _in_words(error: BaseException, annotation: type | None) -> str:
    if isinstance(error, KeyError):
        return f"the field {error} is missing"
    if isinstance(error, Misfit):
        return str(error)
    return f"expected {getattr(annotation, '__name__', annotation)}, got something else ({error})"


# --- the converter ------------------------------------------------------------------------------------------------

# Stores hold integers in 64 bits.
_INT_MAX = (1 << 63) - 1
# The name of a type is cut to this many characters. It is only shown in messages.
_NAME_LENGTH_MAX = 200
# For fields that do not travel: the receiver fills them in.
_LOCAL = override(omit=True)


@attrs.frozen
class TypeName:
    """The type of a payload of which only the name arrived.

    It equals no type, so the payload itself decides whether it fits the waiter.
    """

    name: str

    def __repr__(self) -> str:
        return self.name


@functools.cache
def _converter() -> Converter:
    """The converter for everything that travels. Made on first use, because it generates and compiles code."""
    converter = make_converter(detailed_validation=True)
    # By name and not by position, so that either side may have more fields.
    converter.register_unstructure_hook_factory(is_namedtuple, namedtuple_dict_unstructure_factory)
    converter.register_structure_hook_factory(is_namedtuple, namedtuple_dict_structure_factory)
    converter.register_structure_hook(int, _read_int)
    errors.register(converter)
    code = {"definition": _LOCAL, "arguments": _LOCAL}
    _override(converter, ops.StartWorkflow, **code)
    _override(converter, ops.CreateSchedule, definition=_LOCAL)
    _override(
        converter,
        ops.SendEvent,
        payload_type=override(unstruct_hook=_type_name, struct_hook=_read_type_name),
    )
    return converter


def _override(converter: Converter, kind: type[Any], **fields: Any) -> None:
    attrs.resolve_types(kind)
    converter.register_unstructure_hook(kind, make_dict_unstructure_fn(kind, converter, **fields))
    converter.register_structure_hook(kind, make_dict_structure_fn(kind, converter, **fields))


def _read_int(data: Any, _annotation: Any) -> int:
    if type(data) is not int:
        raise Misfit(f"expected int, got {show(data)} ({type(data).__name__})")
    if not -_INT_MAX <= data <= _INT_MAX:
        raise Misfit(f"{show(data)} does not fit into 64 bits")
    return data


def _type_name(kind: Any) -> str | None:
    if kind is None:
        return None
    if not isinstance(kind, type):
        return repr(kind)[:_NAME_LENGTH_MAX]
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return name[:_NAME_LENGTH_MAX]


def _read_type_name(data: Any, _annotation: Any) -> TypeName | None:
    if data is None:
        return None
    if type(data) is not str:
        raise Misfit(f"expected str, got {show(data)} ({type(data).__name__})")
    return TypeName(data)
