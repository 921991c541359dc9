"""Errors as plain data, and back.

What is stored is a name, a message, a traceback as text and the arguments, all bounded. This room knows exceptions
and JSON text; it must not know who failed or whether it is tried again. Reading never imports or runs anything that
a stored text names: only an exception class that is already loaded is rebuilt, everything else is `ActivityFailed`.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import msgspec

from durable.codec import Codec
from durable.errors import ActivityFailed, Cancelled, CodecError
from durable.records import FailedUndo

TYPE_LENGTH_MAX = 1_000
MESSAGE_LENGTH_MAX = 8_000
TRACEBACK_LENGTH_MAX = 16_000
ARGS_LENGTH_MAX = 16_000
NOTE_LENGTH_MAX = 4_000
# How many failed undos an error tells of, and how much of each; the history has all of them.
UNDOS_MAX = 100
UNDO_LENGTH_MAX = 1_000

_CODEC = Codec()


class _Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored form of an error. `args` is None when the error cannot be rebuilt from them."""

    type: str
    args: list[Any] | None
    message: str
    traceback: str
    cause: _Stored | None = None
    undos: tuple[FailedUndo, ...] = ()


def pack_error(error: BaseException, codec: Codec | None = None) -> str:
    """The JSON text of an error and of its cause. It never fails, whatever the error does when it is asked."""
    stored = _stored(error, codec or _CODEC, _traceback(error))
    if error.__cause__ is not None:
        # The traceback of the error tells of its cause too.
        stored = msgspec.structs.replace(stored, cause=_stored(error.__cause__, codec or _CODEC, ""))
    return msgspec.json.encode(stored).decode()


def unpack_error(text: str) -> BaseException:
    """The error of a JSON text: the original class where it is loaded and can be rebuilt, else `ActivityFailed`.

    Raises `CodecError` for a text that `pack_error` did not write.
    """
    stored = _load(text)
    error = _rebuild(stored)
    if stored.cause is not None:
        # Past any __setattr__ of the class itself, which may forbid it.
        BaseException.__setattr__(error, "__cause__", _rebuild(stored.cause))
    return error


def error_summary(text: str) -> tuple[str, str]:
    """The name of a stored error's class, and its message. Raises `CodecError`."""
    stored = _load(text)
    return stored.type, stored.message


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
        step=_bounded(step, UNDO_LENGTH_MAX),
        undo=_bounded(undo, UNDO_LENGTH_MAX),
        error_type=_type(error),
        message=_bounded(_message(error), UNDO_LENGTH_MAX),
    )


def undos_summary(text: str) -> tuple[FailedUndo, ...]:
    """The failed undos that a stored error tells of. Raises `CodecError`."""
    return _load(text).undos


_UNDOS = "__failed_undos__"


def _undos(error: BaseException) -> tuple[FailedUndo, ...]:
    try:
        # Past any __getattr__ of the class itself.
        found: tuple[FailedUndo, ...] = object.__getattribute__(error, _UNDOS)
    except AttributeError:
        return ()
    return found


# --- writing ------------------------------------------------------------------------------------------------------


def _stored(error: BaseException, codec: Codec, trace: str) -> _Stored:
    return _Stored(_type(error), _args(error, codec), _message(error), trace, undos=_undos(error))


def _type(error: BaseException) -> str:
    return _bounded(f"{type(error).__module__}.{type(error).__qualname__}", TYPE_LENGTH_MAX)


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException as problem:
        text = f"<the message cannot be shown: {type(problem).__name__} in __str__>"
    return _bounded(text, MESSAGE_LENGTH_MAX)


def _traceback(error: BaseException) -> str:
    try:
        told = traceback.TracebackException.from_exception(error, compact=True)
        _forget_columns(told)
        text = "".join(told.format())
    except BaseException as problem:
        text = f"<the traceback cannot be shown: {type(problem).__name__}>"
    return _bounded(text, TRACEBACK_LENGTH_MAX)


def _forget_columns(told: traceback.TracebackException) -> None:
    """Without columns no line is parsed again to underline a part of it, which takes longer than all the rest."""
    open_ends = [told]
    while open_ends:
        one = open_ends.pop()
        for frame in one.stack:
            frame.colno = None
        # It has told every error once, so there are no circles.
        open_ends += [other for other in (one.__cause__, one.__context__, *(one.exceptions or ())) if other is not None]


def _args(error: BaseException, codec: Codec) -> list[Any] | None:
    """The arguments that make the error again, if they are plain JSON and small."""
    try:
        args = list(error.args)
        if isinstance(error, OSError) and len(args) == 2 and error.filename is not None:
            # An OSError takes the names of its files out of its arguments; the 4th is for Windows.
            args += [error.filename] if error.filename2 is None else [error.filename, None, error.filename2]
        text, back = codec.coder(list[Any], "the arguments of an error").pack(args)
    except BaseException:
        return None
    return back if len(text) <= ARGS_LENGTH_MAX else None


def _bounded(text: str, length_max: int) -> str:
    """A text that can be stored: no lone surrogates, and the middle cut out if it is too long."""
    # Called on the class, because a message may be of a subclass of str with an `encode` of its own.
    text = str.encode(text, "utf-8", "backslashreplace").decode()
    if len(text) <= length_max:
        return text
    half = (length_max - 50) // 2
    return f"{text[:half]}\n... [{len(text) - 2 * half} characters cut] ...\n{text[-half:]}"


# --- reading ------------------------------------------------------------------------------------------------------


def _load(text: str) -> _Stored:
    try:
        return msgspec.json.decode(text, type=_Stored)
    except Exception as error:
        raise CodecError("stored error", f"the text is no error of durable: {type(error).__name__}") from error


def _rebuild(stored: _Stored) -> BaseException:
    error = _original(stored)
    if error is None:
        error = ActivityFailed(stored.type, stored.message, stored.traceback)
    if stored.undos:
        BaseException.__setattr__(error, _UNDOS, stored.undos)
    return error


def _original(stored: _Stored) -> BaseException | None:
    """The error as it was, or None unless its class is loaded, takes the arguments and gives the same message."""
    cls = _find_class(stored.type)
    if cls is None or stored.args is None:
        return None
    try:
        error = cls(*stored.args)
    except BaseException:
        return None
    if type(error) is not cls or _message(error) != stored.message:
        return None
    if stored.traceback:
        note = f"Stored traceback:\n{_bounded(stored.traceback, NOTE_LENGTH_MAX)}"
        BaseException.__setattr__(error, "__notes__", [note])
    return error


def _find_class(name: str) -> type[BaseException] | None:
    """The exception class of this dotted name, if it is loaded. Runs no code of anybody, not even a `__getattr__`."""
    if len(name) > TYPE_LENGTH_MAX:
        return None
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:length]))
        if module is not None:
            return _walk(module, parts[length:])
    return None


def _walk(found: Any, path: list[str]) -> type[BaseException] | None:
    # `isinstance` and plain attribute access ask the object itself, and lazy modules and proxies then run code.
    if not issubclass(type(found), ModuleType):
        return None
    found = object.__getattribute__(found, "__dict__").get(path[0])
    for part in path[1:]:
        if not issubclass(type(found), type):
            return None
        found = type.__getattribute__(found, "__dict__").get(part)
    if not issubclass(type(found), type):
        return None
    # KeyboardInterrupt and its like would stop the host process; the only BaseException of ours is a cancellation.
    return found if issubclass(found, Exception | Cancelled) else None
