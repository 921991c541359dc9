"""Errors as JSON text, and back.

Of an error its class name, its message, its traceback as text, its arguments, its attributes and its notes are stored,
all bounded. This module knows exceptions and JSON text. It knows nothing about who failed or whether there is another
attempt. Reading never imports or runs anything that a stored text names: an exception is rebuilt only if its class is
already loaded, and without its constructor. Everything else becomes `ActivityFailed`.
"""

from __future__ import annotations

import contextlib
import inspect
import traceback
from collections.abc import Iterable, Sequence
from types import FunctionType
from typing import Any

import attrs
import msgspec

from durable.errors import ActivityFailed, Cancelled, CodecError, NonRetryable, RetryAfter
from durable.model.exceptions.classes import NAME_LENGTH_MAX, part_of
from durable.model.exceptions.raw import args_of, attributes_of, dict_of, leaves_of, make_error, make_group, members_of
from durable.model.exceptions.stored_names import stored_class, stored_name
from durable.model.exceptions.values import READ_DEPTH_MAX, ValueWriter, read_value, storable
from durable.model.records import FailedUndo
from durable.model.shapes.pydantic_types import is_validation_error, make_validation_error, validation_args

MESSAGE_LENGTH_MAX = 8_000
TRACEBACK_LENGTH_MAX = 16_000
NOTE_LENGTH_MAX = 4_000
# Limits on the parts of an error: arguments, attributes and members of a group (each), notes in total, and causes.
ITEMS_MAX = 100
NOTES_LENGTH_MAX = 16_000
CAUSES_MAX = 5
# How deeply errors may be nested in errors.
NESTED_MAX = 5
# How many failed undos an error lists, and how many characters of each. The history has all of them.
UNDOS_MAX = 100
UNDO_LENGTH_MAX = 1_000

_UNDOS, _TRACE, _NOTES = "__failed_undos__", "__stored_traceback__", "__notes__"
# Attributes that have their own fields in the stored form.
_OWN_FIELDS = frozenset({_UNDOS, _TRACE, _NOTES})
_TRACE_NOTE = "Stored traceback:\n"
# The old form: only the arguments were stored, as plain JSON, and reading used to call the class with them.
_FORM_CALLED = 0
# The present form: arguments and attributes were written by `exceptions.values`.
_FORM_WHOLE = 1


class _Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored form of an error. `args` is None if nothing but its texts could be stored."""

    type: str
    args: list[Any] | None
    message: str
    traceback: str
    cause: _Stored | None = None
    undos: tuple[FailedUndo, ...] = ()
    form: int = _FORM_CALLED
    attributes: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    # The members of an exception group. Its message is its only argument.
    group: tuple[_Stored, ...] = ()


def pack_error(error: BaseException) -> str:
    """The JSON text of an error and its causes. It never raises, whatever the code of the error's class does."""
    packer = _Packer()
    chain = [error]
    while len(chain) <= CAUSES_MAX and (below := chain[-1].__cause__) is not None:
        if any(link is below for link in chain[1:]):
            break
        chain.append(below)
    stored = [packer.pack(link) for link in chain]
    cause: _Stored | None = None
    for link in stored[:0:-1]:
        cause = msgspec.structs.replace(link, cause=cause)
    # The traceback of the error includes those of its causes.
    whole = msgspec.structs.replace(stored[0], traceback=_traceback(error), cause=cause)
    return msgspec.json.encode(whole).decode()


def unpack_error(text: str) -> BaseException:
    """The error in a JSON text: of its original class if that is loaded, else `ActivityFailed`.

    Raises `CodecError` for a text that `pack_error` did not write.
    """
    stored = _load(text)
    trace = stored.traceback
    error = top = _rebuild(stored, trace)
    while stored.cause is not None:
        stored = stored.cause
        cause = _rebuild(stored, trace)
        # Bypass the __setattr__ of the class, which may refuse.
        BaseException.__setattr__(error, "__cause__", cause)
        error = cause
    return top


def error_summary(text: str) -> tuple[str, str]:
    """The name of a stored error's class, and its message. Raises `CodecError`."""
    stored = _load(text)
    return stored.type, stored.message


def stored_traceback(error: BaseException) -> str:
    """The traceback, as text, of an error that was read from the store; empty for any other error.

    It is from the process that first raised the error, and there is one for every class of error.
    """
    if isinstance(error, ActivityFailed):
        return error.traceback
    text = dict_of(error).get(_TRACE)
    return text if isinstance(text, str) else ""


# --- failed undos -----------------------------------------------------------------------------------------------


def failed_undos(error: BaseException) -> tuple[FailedUndo, ...]:
    """The undos that failed after this error of a workflow or saga; empty if all succeeded.

    For an error that reports another one, such as `WorkflowFailed`, they are found on its `__cause__`.
    """
    for _ in range(3):
        failed = _undos(error)
        if failed or error.__cause__ is None:
            return failed
        error = error.__cause__
    return ()


def report_undos(error: BaseException, failed: Iterable[FailedUndo]) -> None:
    """Add failed undos to an error: as notes for people, and as the result of `failed_undos`."""
    reported = _undos(error)
    news = [undo for undo in failed if undo not in reported][: UNDOS_MAX - len(reported)]
    if news:
        notes = getattr(error, "__notes__", None)
        lines = [*(notes if isinstance(notes, list) else []), *map(str, news)]
        # Bypass the __setattr__ of the class, which may refuse.
        BaseException.__setattr__(error, "__notes__", lines)
        BaseException.__setattr__(error, _UNDOS, (*reported, *news))


def failed_undo(position: str, step: str, undo: str, error: BaseException) -> FailedUndo:
    """The description of a failed undo, with texts cut to their limits."""
    return FailedUndo(
        position=position,
        step=storable(step, UNDO_LENGTH_MAX),
        undo=storable(undo, UNDO_LENGTH_MAX),
        error_type=_type(error),
        message=storable(_message(error), UNDO_LENGTH_MAX),
    )


def undos_summary(text: str) -> tuple[FailedUndo, ...]:
    """The failed undos listed in a stored error. Raises `CodecError`."""
    return _load(text).undos


def _undos(error: BaseException) -> tuple[FailedUndo, ...]:
    try:
        # Bypass the __getattr__ of the class.
        failed: tuple[FailedUndo, ...] = object.__getattribute__(error, _UNDOS)
    except AttributeError:
        return ()
    return failed


# --- writing ------------------------------------------------------------------------------------------------------


class _Packer:
    """Takes one error apart, with the errors inside it. They share one limit on their size."""

    def __init__(self) -> None:
        self._writer = ValueWriter(self._nested)

    def pack(self, error: BaseException, depth: int = 0) -> _Stored:
        """The stored form of an error, without its traceback and its cause."""
        lost = self._writer.lost
        before = len(lost)
        group: tuple[_Stored, ...] = ()
        args: tuple[Any, ...] = args_of(error)
        if is_validation_error(type(error)):
            with contextlib.suppress(Exception):
                args = validation_args(error)
        if issubclass(type(error), BaseExceptionGroup):
            message, members = members_of(error)
            args = (message,)
            if depth >= NESTED_MAX:
                # Flatten it: `except*` finds its errors at any depth, so no handler notices.
                members = leaves_of(error, ITEMS_MAX + 1)
                lost += [f"the order of groups more than {NESTED_MAX} deep"]
            group = tuple([self.pack(member, depth + 1) for member in members[:ITEMS_MAX]])
            lost += [f"members from {ITEMS_MAX} on"] if len(members) > ITEMS_MAX else []
        stored = _Stored(
            type=_type(error),
            args=[self._writer.write(value, f"args[{place}]", depth) for place, value in enumerate(args[:ITEMS_MAX])],
            message=_message(error),
            traceback="",
            undos=_undos(error),
            form=_FORM_WHOLE,
            attributes=self._attributes(error, args, depth),
            group=group,
        )
        lost += [f"args from {ITEMS_MAX} on"] if len(args) > ITEMS_MAX else []
        return msgspec.structs.replace(stored, notes=_notes(error, lost[before:]))

    def _attributes(self, error: BaseException, args: tuple[Any, ...], depth: int) -> dict[str, Any]:
        attributes: dict[str, Any] = {}
        for name, value in attributes_of(error).items():
            if type(name) is not str or name in _OWN_FIELDS or not name.isprintable() or len(name) > UNDO_LENGTH_MAX:
                continue
            if len(attributes) == ITEMS_MAX:
                self._writer.lost.append(f"attributes from {name:.50} on")
                break
            # Most attributes are also arguments, and are stored as a reference to those.
            place = next((place for place, arg in enumerate(args[:ITEMS_MAX]) if arg is value), None)
            attributes[name] = self._writer.write(value, name, depth) if place is None else {"$": "arg", "v": place}
        return attributes

    def _nested(self, error: BaseException, depth: int) -> Any:
        if depth > NESTED_MAX:
            raise RecursionError("errors inside errors")
        return msgspec.to_builtins(self.pack(error, depth))


def _type(error: BaseException) -> str:
    return storable(stored_name(type(error)), NAME_LENGTH_MAX)


def _notes(error: BaseException, lost: list[str]) -> tuple[str, ...]:
    """The notes on an error, followed by a note on the parts that could not be stored exactly."""
    noted = dict_of(error).get(_NOTES)
    notes = [note for note in noted if isinstance(note, str)] if isinstance(noted, list | tuple) else []
    notes = [note for note in notes if not str.startswith(note, _TRACE_NOTE)][:ITEMS_MAX]
    if lost:
        notes.append(f"Could not be stored and became text: {', '.join(lost)}")
    remaining = NOTES_LENGTH_MAX
    kept: list[str] = []
    for note in notes:
        kept.append(storable(note, min(NOTE_LENGTH_MAX, max(remaining, 100))))
        remaining -= len(kept[-1])
    return tuple(kept)


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException as problem:
        text = f"<the message cannot be shown: {type(problem).__name__} in __str__>"
    return storable(text, MESSAGE_LENGTH_MAX)


def _traceback(error: BaseException) -> str:
    try:
        formatter = traceback.TracebackException.from_exception(error, compact=True)
        _forget_columns(formatter)
        text = "".join(formatter.format())
    except BaseException as problem:
        text = f"<the traceback cannot be shown: {type(problem).__name__}>"
    return storable(text, TRACEBACK_LENGTH_MAX)


def _forget_columns(formatter: traceback.TracebackException) -> None:
    """Drop the columns of a traceback.

    With columns, formatting parses each line again to underline a part of it. That takes longer than all other work
    here together.
    """
    open_ends = [formatter]
    while open_ends:
        current = open_ends.pop()
        for frame in current.stack:
            frame.colno = None
        # The formatter visits every error once, so this loop ends even if errors refer to each other.
        open_ends += [
            inner
            for inner in (current.__cause__, current.__context__, *(current.exceptions or ()))
            if inner is not None
        ]


# --- reading ------------------------------------------------------------------------------------------------------


def _load(text: str) -> _Stored:
    try:
        return msgspec.json.decode(text, type=_Stored)
    except Exception as error:
        raise CodecError("stored error", f"the text is not an error that was stored: {type(error).__name__}") from error


def _rebuild(stored: _Stored, trace: str, depth: int = 0) -> BaseException:
    """The error of a stored form, or `ActivityFailed` in its place, with notes, traceback and failed undos."""
    notes = list(stored.notes)
    error = _original(stored, depth)
    if error is None:
        error = ActivityFailed(stored.type, stored.message, trace)
    elif type(error) is ActivityFailed and not dict_of(error).get("traceback"):
        # An activity raised `ActivityFailed` itself.
        dict_of(error)["traceback"] = trace
    elif stored.traceback:
        notes.append(f"{_TRACE_NOTE}{storable(stored.traceback, NOTE_LENGTH_MAX)}")
    extras: dict[str, Any] = {_NOTES: notes, _TRACE: trace, _UNDOS: stored.undos}
    dict_of(error).update({name: value for name, value in extras.items() if value})
    return error


def _original(stored: _Stored, depth: int) -> BaseException | None:
    """The error as it was raised; None if its class is not loaded or cannot be rebuilt."""
    cls = stored_class(stored.type)
    # KeyboardInterrupt and the like would stop the host process. `Cancelled` is the only BaseException that is stored.
    if cls is None or not issubclass(cls, Exception | Cancelled) or stored.args is None or depth > READ_DEPTH_MAX:
        return None
    try:
        if stored.form == _FORM_CALLED:
            return _called(cls, stored.args)
        args = [read_value(data, _read_nested, depth) for data in stored.args]
        attributes = {
            name: _read_attribute(data, args, depth)
            for name, data in stored.attributes.items()
            if name not in _OWN_FIELDS
        }
        if issubclass(cls, BaseExceptionGroup):
            members = [_rebuild(member, "", depth + 1) for member in stored.group]
            return make_group(cls, args[0], members, attributes)
        if is_validation_error(cls):
            return make_validation_error(cls, args)
        return make_error(cls, args, attributes)
    except Exception:
        # The class has fields in C that only its constructor can fill.
        return None


def _read_attribute(data: Any, args: list[Any], depth: int) -> Any:
    if type(data) is dict and data.get("$") == "arg":
        place = data.get("v")
        return args[place] if type(place) is int and 0 <= place < len(args) else None
    return read_value(data, _read_nested, depth)


def _read_nested(data: Any, depth: int) -> BaseException:
    return _rebuild(msgspec.convert(data, _Stored), "", depth)


# --- the old form: errors stored by their arguments alone ---------------------------------------------------------

# The attributes that the constructors of these classes set from their arguments, in order.
_FIELDS: dict[type[BaseException], tuple[str, ...]] = {
    Cancelled: ("reason",),
    NonRetryable: ("message",),
    RetryAfter: ("delay", "message"),
}
_PYTHON_FIELDS: dict[type[BaseException], tuple[str, ...]] = {
    # The 4th argument is used on Windows only.
    OSError: ("errno", "strerror", "filename", "", "filename2"),
    ImportError: ("msg",),
    SyntaxError: ("msg",),
    StopIteration: ("value",),
}

# Parameters that collect several arguments.
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _called(cls: type[BaseException], args: list[Any]) -> BaseException | None:
    """An error of which only the arguments were stored, with the attributes that its constructor set from them.

    No constructor runs, whatever the row says. A constructor of a user could do anything; nearly all of them store each
    parameter in an attribute of the same name, and those are the attributes that a body has read.
    """
    init = part_of(cls, "__init__")
    names: Sequence[str] = ()
    attributes: dict[str, Any] = {}
    if type(init) is FunctionType:
        try:
            call = inspect.signature(init, follow_wrapped=False).bind(None, *args)
        except (TypeError, ValueError):
            # Calling it would have failed, and `ActivityFailed` was raised instead. Do the same on a replay.
            return None
        call.apply_defaults()
        own = [parameter.name for parameter in call.signature.parameters.values() if parameter.kind not in _VARIABLE]
        attributes = {name: call.arguments[name] for name in own[1:]}
    kind: Any = cls
    if attrs.has(kind):
        names = [field.name for field in attrs.fields(kind) if field.init]
    elif type(fields := part_of(cls, "__dataclass_fields__")) is dict:
        names = [name for name, field in fields.items() if field.init]
    for base, attribute_names in _FIELDS.items():
        names = attribute_names if issubclass(cls, base) else names
    for base, attribute_names in _PYTHON_FIELDS.items():
        names = attribute_names if issubclass(cls, base) and type(init) is not FunctionType else names
    if names:
        attributes = {name: value for name, value in zip(names, args, strict=False) if name}
    return make_error(cls, args[:2] if names == _PYTHON_FIELDS[OSError] else args, attributes)
