"""Exceptions as they are in memory: taken apart and rebuilt without their constructor.

No `__init__`, `__new__`, `__setattr__` or property of a user's class runs, whatever a stored text says. Only the code
of Python's own exceptions does. Knows exceptions, and nothing about durable.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from types import BuiltinFunctionType
from typing import Any

from durable.model.exceptions.classes import ABSENT, Slots, fill, is_static, mro_of, part_of, slots_of

_ARGS = BaseException.__dict__["args"]
_DICT = BaseException.__dict__["__dict__"]
_MEMBERS = BaseExceptionGroup.__dict__["exceptions"]
_GROUP_MESSAGE = BaseExceptionGroup.__dict__["message"]
# Fields that are not copied. `obj` of an AttributeError is the object that lacks the attribute, and could be anything.
# The fields of a UnicodeError are read by C code that trusts them, so only C code that checks them sets them.
_LEFT_OUT = ("obj", "characters_written")
_UNICODE: tuple[tuple[type[UnicodeError], type], ...] = (
    (UnicodeEncodeError, str),
    (UnicodeDecodeError, bytes),
    (UnicodeTranslateError, str),
)


def args_of(error: BaseException) -> tuple[Any, ...]:
    """The arguments of an error, bypassing any property of that name."""
    args: tuple[Any, ...] = _ARGS.__get__(error)
    return args


def dict_of(error: BaseException) -> dict[str, Any]:
    """The `__dict__` of an error itself: its attributes except those in slots. Changing it changes the error."""
    attributes: dict[str, Any] = _DICT.__get__(error)
    return attributes


def error_slots(cls: type[BaseException]) -> Slots:
    """The fields of an error class that are outside of its dict and are safe to set."""
    return _slots(cls)  # type: ignore[arg-type]  # mypy takes a class for unhashable


@functools.lru_cache(maxsize=1_000)
def _slots(cls: type[BaseException]) -> Slots:
    """The fields of a class without those that are unsafe or useless to copy. Cached, because classes do not change."""
    if issubclass(cls, UnicodeError):
        left_out = set(slots_of(UnicodeDecodeError, UnicodeError)) | set(slots_of(UnicodeTranslateError, UnicodeError))
    elif issubclass(cls, BaseExceptionGroup):
        left_out = {"message", "exceptions"}
    else:
        left_out = set(_LEFT_OUT)
    return {name: slot for name, slot in slots_of(cls, BaseException).items() if name not in left_out}


def attributes_of(error: BaseException) -> dict[str, Any]:
    """All attributes of an error: its dict, its slots, and the fields of Python's own errors that are not None."""
    attributes = dict(dict_of(error))
    for name, slot in error_slots(type(error)).items():
        try:
            value = slot.__get__(error)
        except AttributeError:
            # An empty slot.
            continue
        if value is not None or not is_static(slot.__objclass__):
            attributes[name] = value
    return attributes


def members_of(error: BaseException) -> tuple[str, tuple[BaseException, ...]]:
    """The message of an exception group, and its members."""
    return _GROUP_MESSAGE.__get__(error), _MEMBERS.__get__(error)


def leaves_of(group: BaseException, most: int) -> tuple[BaseException, ...]:
    """The first `most` errors in a group, at any depth, that are not groups."""
    leaves: list[BaseException] = []
    open_ends = [group]
    while open_ends and len(leaves) < most:
        error = open_ends.pop()
        if issubclass(type(error), BaseExceptionGroup):
            open_ends += reversed(members_of(error)[1])
        else:
            leaves.append(error)
    return tuple(leaves)


def make_error(cls: type[BaseException], args: Sequence[Any], attributes: dict[str, Any]) -> BaseException:
    """An error of this class with these arguments and attributes. Raises `TypeError` if it cannot be made."""
    error = _blank(cls)
    _ARGS.__set__(error, tuple(args))
    if issubclass(cls, UnicodeError):
        _set_unicode(error, tuple(args))
    fill(error, cls, error_slots(cls), attributes)
    return error


def make_group(
    cls: type[BaseException], message: object, members: Sequence[BaseException], attributes: dict[str, Any]
) -> BaseException:
    """A group of this class. Raises `TypeError` or `ValueError` if it cannot be made."""
    error = _blank(cls, message, members)
    fill(error, cls, error_slots(cls), attributes)
    return error


def _blank(cls: type[BaseException], *args: object) -> BaseException:
    """An instance made by `__new__` of the nearest base that is defined in C. No code of the class itself runs.

    Raises `TypeError` if no such `__new__` accepts the class, or if dropping the instance would run code of the user.
    """
    if part_of(cls, "__del__") is not ABSENT:
        raise TypeError(f"{cls.__name__} runs code when it is thrown away")
    problem = TypeError(f"{cls.__name__} is not a class of errors")
    for base in mro_of(cls):
        new = base.__dict__.get("__new__")
        if not is_static(base) or type(new) is not BuiltinFunctionType:
            continue
        try:
            # Python refuses first if the class has fields that `__new__` of another base must initialise.
            error: BaseException = new(cls, *args)
        except TypeError as refusal:
            problem = refusal
        else:
            return error
    raise problem


def _set_unicode(error: BaseException, args: tuple[Any, ...]) -> None:
    """Set the fields of a `UnicodeError` through its own constructor, if the arguments have the right types and ranges.

    Otherwise the fields stay empty, and only the arguments are there.
    """
    for base, kind in _UNICODE:
        if not issubclass(type(error), base):
            continue
        has_encoding = base is not UnicodeTranslateError
        text, start, end = args[has_encoding : has_encoding + 3] if len(args) == 4 + has_encoding else (None, 0, 0)
        if type(text) is not kind or type(start) is not int or type(end) is not int:
            continue
        # The constructor does not check the range, and C code would later read past the end of the text.
        if 0 <= start <= end <= len(text):  # type: ignore[arg-type]  # it is a str or bytes
            with contextlib.suppress(TypeError):
                base.__init__(error, *args)  # pyright: ignore[reportArgumentType]  # it is a UnicodeError
