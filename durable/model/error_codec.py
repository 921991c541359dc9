"""Errors as plain data, and back.

What is stored is a name, a message, a traceback as text, and what was in the error: its arguments, its attributes and
its notes, all bounded. This room knows exceptions and JSON text; it must not know who failed or whether it is tried
again. Reading never imports or runs anything that a stored text names: only an exception class that is already loaded
is put together again, without its constructor; everything else is `ActivityFailed`.
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
# How much is stored of what an error holds: arguments and attributes, members of a group, notes, and causes.
ITEMS_MAX = 100
NOTES_LENGTH_MAX = 16_000
CAUSES_MAX = 5
# How deep errors that hold errors are stored.
NESTED_MAX = 5
# How many failed undos an error tells of, and how much of each; the history has all of them.
UNDOS_MAX = 100
UNDO_LENGTH_MAX = 1_000

_UNDOS, _TRACE, _NOTES = "__failed_undos__", "__stored_traceback__", "__notes__"
# Attributes that are stored in another way.
_OURS = frozenset({_UNDOS, _TRACE, _NOTES})
_TRACE_NOTE = "Stored traceback:\n"
# The arguments are plain JSON, and the class was called with them. Nothing else was stored.
_FORM_CALLED = 0
# Arguments and attributes are values of `error_values`.
_FORM_WHOLE = 1


class _Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored form of an error. Without `args` nothing of it could be stored but what it says."""

    type: str
    args: list[Any] | None
    message: str
    traceback: str
    cause: _Stored | None = None
    undos: tuple[FailedUndo, ...] = ()
    form: int = _FORM_CALLED
    attributes: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    # The members of a group; its message is its one argument.
    group: tuple[_Stored, ...] = ()


def pack_error(error: BaseException) -> str:
    """The JSON text of an error and of its causes. It never fails, whatever the error does when it is asked."""
    packer = _Packer()
    chain = [error]
    while len(chain) <= CAUSES_MAX and (below := chain[-1].__cause__) is not None:
        if any(one is below for one in chain[1:]):
            break
        chain.append(below)
    stored = [packer.pack(one) for one in chain]
    cause: _Stored | None = None
    for one in stored[:0:-1]:
        cause = msgspec.structs.replace(one, cause=cause)
    # The traceback of the error tells of its causes too.
    whole = msgspec.structs.replace(stored[0], traceback=_traceback(error), cause=cause)
    return msgspec.json.encode(whole).decode()


def unpack_error(text: str) -> BaseException:
    """The error of a JSON text: the original class where it is loaded, else `ActivityFailed`.

    Raises `CodecError` for a text that `pack_error` did not write.
    """
    stored = _load(text)
    trace = stored.traceback
    error = top = _rebuild(stored, trace)
    while stored.cause is not None:
        stored = stored.cause
        cause = _rebuild(stored, trace)
        # Past any __setattr__ of the class itself, which may forbid it.
        BaseException.__setattr__(error, "__cause__", cause)
        error = cause
    return top


def error_summary(text: str) -> tuple[str, str]:
    """The name of a stored error's class, and its message. Raises `CodecError`."""
    stored = _load(text)
    return stored.type, stored.message


def stored_traceback(error: BaseException) -> str:
    """The traceback, as text, of an error that was read from the store; empty for an error that was not.

    It is that of the process in which the error was raised first, whatever its class is.
    """
    if isinstance(error, ActivityFailed):
        return error.traceback
    text = dict_of(error).get(_TRACE)
    return text if isinstance(text, str) else ""


# --- undos that have failed -----------------------------------------------------------------------------------------


def failed_undos(error: BaseException) -> tuple[FailedUndo, ...]:
    """What could not be undone after this error of a workflow or a saga; empty where everything was.

    Of an error that reports another one, such as `WorkflowFailed`, it is what its `__cause__` knows.
    """
    for _ in range(3):
        found = _undos(error)
        if found or error.__cause__ is None:
            return found
        error = error.__cause__
    return ()


def report_undos(error: BaseException, failed: Iterable[FailedUndo]) -> None:
    """Say on an error what could not be undone after it: notes for people, and what `failed_undos` gives."""
    known = _undos(error)
    news = [one for one in failed if one not in known][: UNDOS_MAX - len(known)]
    if news:
        notes = getattr(error, "__notes__", None)
        told = [*(notes if isinstance(notes, list) else []), *map(str, news)]
        # Past any __setattr__ of the class itself, which may forbid it.
        BaseException.__setattr__(error, "__notes__", told)
        BaseException.__setattr__(error, _UNDOS, (*known, *news))


def failed_undo(position: str, step: str, undo: str, error: BaseException) -> FailedUndo:
    """What is known of an undo that has failed."""
    return FailedUndo(
        position=position,
        step=storable(step, UNDO_LENGTH_MAX),
        undo=storable(undo, UNDO_LENGTH_MAX),
        error_type=_type(error),
        message=storable(_message(error), UNDO_LENGTH_MAX),
    )


def undos_summary(text: str) -> tuple[FailedUndo, ...]:
    """The failed undos that a stored error tells of. Raises `CodecError`."""
    return _load(text).undos


def _undos(error: BaseException) -> tuple[FailedUndo, ...]:
    try:
        # Past any __getattr__ of the class itself.
        found: tuple[FailedUndo, ...] = object.__getattribute__(error, _UNDOS)
    except AttributeError:
        return ()
    return found


# --- writing ------------------------------------------------------------------------------------------------------


class _Packer:
    """Takes one error apart, and those inside it. What it stores of all of them is bounded together."""

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
                # `except*` finds what it looks for, however deep it lay.
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
            if type(name) is not str or name in _OURS or not name.isprintable() or len(name) > UNDO_LENGTH_MAX:
                continue
            if len(attributes) == ITEMS_MAX:
                self._writer.lost.append(f"attributes from {name:.50} on")
                break
            # Most attributes are arguments too.
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
    """What people have noted on an error, and what could not be stored of it."""
    told = dict_of(error).get(_NOTES)
    notes = [note for note in told if isinstance(note, str)] if isinstance(told, list | tuple) else []
    notes = [note for note in notes if not str.startswith(note, _TRACE_NOTE)][:ITEMS_MAX]
    if lost:
        notes.append(f"Could not be stored and became text: {', '.join(lost)}")
    left = NOTES_LENGTH_MAX
    kept: list[str] = []
    for note in notes:
        kept.append(storable(note, min(NOTE_LENGTH_MAX, max(left, 100))))
        left -= len(kept[-1])
    return tuple(kept)


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException as problem:
        text = f"<the message cannot be shown: {type(problem).__name__} in __str__>"
    return storable(text, MESSAGE_LENGTH_MAX)


def _traceback(error: BaseException) -> str:
    try:
        told = traceback.TracebackException.from_exception(error, compact=True)
        _forget_columns(told)
        text = "".join(told.format())
    except BaseException as problem:
        text = f"<the traceback cannot be shown: {type(problem).__name__}>"
    return storable(text, TRACEBACK_LENGTH_MAX)


def _forget_columns(told: traceback.TracebackException) -> None:
    """Without columns no line is parsed again to underline a part of it, which takes longer than all the rest."""
    open_ends = [told]
    while open_ends:
        one = open_ends.pop()
        for frame in one.stack:
            frame.colno = None
        # It has told every error once, so there are no circles.
        open_ends += [other for other in (one.__cause__, one.__context__, *(one.exceptions or ())) if other is not None]


# --- reading ------------------------------------------------------------------------------------------------------


def _load(text: str) -> _Stored:
    try:
        return msgspec.json.decode(text, type=_Stored)
    except Exception as error:
        raise CodecError("stored error", f"the text is not an error that was stored: {type(error).__name__}") from error


def _rebuild(stored: _Stored, trace: str, depth: int = 0) -> BaseException:
    notes = list(stored.notes)
    error = _original(stored, depth)
    if error is None:
        error = ActivityFailed(stored.type, stored.message, trace)
    elif type(error) is ActivityFailed and not dict_of(error).get("traceback"):
        # One that an activity raised itself.
        dict_of(error)["traceback"] = trace
    elif stored.traceback:
        notes.append(f"{_TRACE_NOTE}{storable(stored.traceback, NOTE_LENGTH_MAX)}")
    more: dict[str, Any] = {_NOTES: notes, _TRACE: trace, _UNDOS: stored.undos}
    dict_of(error).update({name: value for name, value in more.items() if value})
    return error


def _original(stored: _Stored, depth: int) -> BaseException | None:
    """The error as it was, or None unless its class is loaded."""
    cls = stored_class(stored.type)
    # KeyboardInterrupt and its like would stop the host process; the only BaseException of ours is a cancellation.
    if cls is None or not issubclass(cls, Exception | Cancelled) or stored.args is None or depth > READ_DEPTH_MAX:
        return None
    try:
        if stored.form == _FORM_CALLED:
            return _called(cls, stored.args)
        args = [read_value(data, _read_nested, depth) for data in stored.args]
        attributes = {
            name: _read_attribute(data, args, depth) for name, data in stored.attributes.items() if name not in _OURS
        }
        if issubclass(cls, BaseExceptionGroup):
            members = [_rebuild(member, "", depth + 1) for member in stored.group]
            return make_group(cls, args[0], members, attributes)
        if is_validation_error(cls):
            return make_validation_error(cls, args)
        return make_error(cls, args, attributes)
    except Exception:
        # A class with fields in C that nobody but its constructor can fill.
        return None


def _read_attribute(data: Any, args: list[Any], depth: int) -> Any:
    if type(data) is dict and data.get("$") == "arg":
        place = data.get("v")
        return args[place] if type(place) is int and 0 <= place < len(args) else None
    return read_value(data, _read_nested, depth)


def _read_nested(data: Any, depth: int) -> BaseException:
    return _rebuild(msgspec.convert(data, _Stored), "", depth)


# --- errors that were stored by their arguments alone -------------------------------------------------------------

# What the constructors of some classes make of their arguments.
_FIELDS: dict[type[BaseException], tuple[str, ...]] = {
    Cancelled: ("reason",),
    NonRetryable: ("message",),
    RetryAfter: ("delay", "message"),
}
_PYTHON_FIELDS: dict[type[BaseException], tuple[str, ...]] = {
    # The 4th is for Windows.
    OSError: ("errno", "strerror", "filename", "", "filename2"),
    ImportError: ("msg",),
    SyntaxError: ("msg",),
    StopIteration: ("value",),
}

# What a constructor collects under one name.
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _called(cls: type[BaseException], args: list[Any]) -> BaseException | None:
    """An error of which only the arguments were stored, as its class made it of them when it was raised first.

    No constructor runs, whatever the row says. What a constructor of a user does is not known; nearly all of them keep
    each parameter in an attribute of the same name, and the body has read those when it ran for the first time.
    """
    init = part_of(cls, "__init__")
    names: Sequence[str] = ()
    attributes: dict[str, Any] = {}
    if type(init) is FunctionType:
        try:
            call = inspect.signature(init, follow_wrapped=False).bind(None, *args)
        except (TypeError, ValueError):
            # It could not be called, so `ActivityFailed` was raised in its place.
            return None
        call.apply_defaults()
        own = [parameter.name for parameter in call.signature.parameters.values() if parameter.kind not in _VARIABLE]
        attributes = {name: call.arguments[name] for name in own[1:]}
    kind: Any = cls
    if attrs.has(kind):
        names = [field.name for field in attrs.fields(kind) if field.init]
    elif type(fields := part_of(cls, "__dataclass_fields__")) is dict:
        names = [name for name, field in fields.items() if field.init]
    for base, known in _FIELDS.items():
        names = known if issubclass(cls, base) else names
    for base, known in _PYTHON_FIELDS.items():
        names = known if issubclass(cls, base) and type(init) is not FunctionType else names
    if names:
        attributes = {name: value for name, value in zip(names, args, strict=False) if name}
    return make_error(cls, args[:2] if names == _PYTHON_FIELDS[OSError] else args, attributes)
