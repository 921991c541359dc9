"""An error comes back with everything it held, and no constructor runs for that."""

from __future__ import annotations

import dataclasses
import enum
import json
import traceback
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import pytest

from durable import stored_traceback
from durable.errors import ActivityFailed, ActivityTimedOut, Cancelled, NonRetryable, PauseCancelled, RetryAfter
from durable.model.error_codec import pack_error, unpack_error


class Declined(Exception):
    """Its message and its attributes differ."""

    def __init__(self, code: object) -> None:
        super().__init__("declined")
        self.code: Any = code


class ByKeyword(Exception):
    """Is called with keywords only."""

    def __init__(self, *, code: int = 0, why: str = "") -> None:
        super().__init__(f"code {code}")
        self.code, self.why = code, why


class Slotted(Exception):
    """Has a field in a slot, and an empty slot."""

    __slots__ = ("code", "empty")

    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code


@attrs.define
class Defined(Exception):
    """A class of attrs with slots."""

    code: int
    why: str = "none"


class Sealed(Exception):
    """Forbids setting attributes."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(name)

    def __new__(cls, *args: object) -> Sealed:  # noqa: PYI034  # as users write it
        return super().__new__(cls, *args)


class Mine(OSError):
    """A subclass of a built-in error with its own constructor."""

    def __init__(self, path: str) -> None:
        super().__init__(2, "not there", path)
        self.tried = 3


class Colour(enum.Enum):
    """An enum."""

    RED = "r"


@attrs.frozen
class Point:
    """A value of attrs."""

    x: int
    tags: tuple[str, ...] = ()


@dataclasses.dataclass
class Line:
    """A value of dataclasses."""

    start: Point
    end: Point | None = None


def back_of(error: BaseException) -> Any:
    """The error after it was stored."""
    return unpack_error(pack_error(error))


def facts(error: Any) -> tuple[Any, ...]:
    """The parts of an error, without what the store adds."""
    attributes = {name: value for name, value in vars(error).items() if not name.startswith("__")}
    return type(error), error.args, attributes, str(error)


@pytest.mark.parametrize("error", [
    Declined(7), ByKeyword(code=5, why="x"), Slotted(5), Defined(5, "why"), Sealed("a"), Mine("/x"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), UnicodeEncodeError("ascii", "ä", 0, 1, "bad"),
    UnicodeTranslateError("ä", 0, 1, "bad"), UnicodeError("plain"), json.JSONDecodeError("bad", "doc", 1),
    ImportError("no", name="x", path="/y"), SyntaxError("bad", ("file", 1, 2, "text")), StopAsyncIteration(5),
    NameError("x", name="x"), AttributeError("x", name="y", obj=object()), NonRetryable("no", 5), RetryAfter(3, "wait"),
    OSError(18, "Cross-device", "/a", None, "/b"), FileNotFoundError(2, "No", Path("/x")), Cancelled("stop"),
], ids=repr)  # fmt: skip
def test_error_holds_what_was_raised(error: BaseException) -> None:
    """Arguments, attributes, slots and the fields of Python's own errors come back as raised."""
    back = back_of(error)
    assert facts(back) == facts(error)
    for name in (
        "code",
        "empty",
        "filename",
        "filename2",
        "errno",
        "reason",
        "object",
        "name",
        "msg",
        "lineno",
        "text",
    ):
        assert getattr(back, name, "absent") == getattr(error, name, "absent")


NOON = datetime(2026, 3, 28, 12, tzinfo=ZoneInfo("Europe/Berlin"))
VALUES: list[Any] = [
    NOON, NOON.replace(tzinfo=timezone.utc), date(2026, 1, 2), time(1, 2), timedelta(days=-1), Decimal("1.50"),
    UUID(int=5), b"\0\xff", (1, (2, "a")), {1, 2}, frozenset({"a"}), Colour.RED, Point(1, ("a",)),
    Line(Point(1), Point(2)), {"a": [1, None, 1.5]}, {5: "five", (1, 2): Colour.RED}, {"$": "dict", "v": []},
    float("inf"), 1 << 80, Path("/x"), [], {}, {Colour.RED: {1}},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_error_keeps_values(value: Any) -> None:
    """Values that are not JSON come back as themselves, as arguments and as attributes."""
    error = ValueError(value, "x")
    error.value = [value]  # type: ignore[attr-defined]
    back = back_of(error)
    assert back.args == (value, "x")
    assert type(back.args[0]) is type(value)
    assert back.value == [value]
    assert getattr(back.args[0], "tzinfo", None) == getattr(value, "tzinfo", None)


def test_error_that_holds_errors_keeps_them() -> None:
    """Groups and errors among the arguments come back as errors, each with its own parts."""
    group = ExceptionGroup("two", [Declined(1), ExceptionGroup("inner", [ByKeyword(code=2)])])
    group.extra = KeyError("x")  # type: ignore[attr-defined]
    back = back_of(group)
    assert (type(back), back.message, back.exceptions[0].code) == (ExceptionGroup, "two", 1)
    assert back.exceptions[1].exceptions[0].code == 2
    assert repr(back.extra) == "KeyError('x')"
    caught, remaining = back.split(Declined)
    assert (len(caught.exceptions), len(remaining.exceptions)) == (1, 1)


def test_error_keeps_its_notes() -> None:
    """Notes come back unchanged, before the stored traceback, and are not repeated when stored again."""
    error = ValueError("no")
    error.add_note("mine")
    error.add_note("yours")
    try:
        raise error
    except ValueError as caught:
        back = back_of(caught)
    assert back.__notes__[:2] == ["mine", "yours"]
    again = back_of(back)
    assert again.__notes__[:2] == ["mine", "yours"]
    assert len(again.__notes__) == 3


def test_value_that_cannot_be_stored_becomes_text() -> None:
    """It is replaced by its text, everything else stays, and a note says what was replaced."""
    error = Declined(object())
    error.args = ("declined", {object()}, "\ud800")
    back = back_of(error)
    assert type(back) is Declined
    assert back.args[0] == "declined"
    assert back.args[2] == "\\ud800"
    assert back.code.startswith("<object object")
    assert back.__notes__[0] == "Could not be stored and became text: args[1] (set), args[2] (str), code (object)"


def test_traceback_is_there_for_every_kind_of_error() -> None:
    """`stored_traceback` gives it for errors, causes and `ActivityFailed` alike; nothing for a fresh error."""
    cause = type("Local", (Exception,), {})("here")
    for error in (Declined(1), KeyboardInterrupt(), ActivityFailed("x.Y", "m")):
        try:
            raise error from cause
        except BaseException as caught:
            back = back_of(caught)
        assert "in test_traceback_is_there_for_every_kind_of_error" in stored_traceback(back)
        assert isinstance(back.__cause__, ActivityFailed)
        assert "in test_traceback_is_there" in back.__cause__.traceback
        assert "Local: here" in "".join(traceback.format_exception(back))
    assert stored_traceback(ValueError("a")) == ""


def called(cls: type, *args: object) -> Any:
    """An error as in stores that keep only the arguments."""
    name = f"{cls.__module__}.{cls.__qualname__}"
    return unpack_error(json.dumps({"type": name, "args": args, "message": "m", "traceback": "t"}))


def test_error_stored_by_its_arguments_is_read() -> None:
    """Rows of older stores give the class with its arguments, and ours with their fields; no constructor runs."""
    assert called(Declined, "declined").args == ("declined",)
    # As on the first run: the class was called with its message.
    assert called(Declined, "declined").code == "declined"
    assert str(called(ActivityTimedOut, "charge", 1.5)) == "activity 'charge' did not finish within 1.5 s"
    assert called(PauseCancelled, "w", "0", None).reason is None
    assert (called(RetryAfter, 3, "m").delay, called(NonRetryable, "m").message) == (3, "m")
    assert called(Cancelled, "why").reason == "why"
    lost = called(FileNotFoundError, 2, "No such file", "/x")
    assert (lost.args, lost.errno, lost.filename) == ((2, "No such file"), 2, "/x")
    assert str(lost) == "[Errno 2] No such file: '/x'"
    assert called(ImportError, "no").msg == "no"
    assert type(called(ByKeyword, "code 5")) is ActivityFailed
    assert type(called(Defined, 5, "b")) is Defined
    assert called(Defined, 5, "b").why == "b"


class Armed(Exception):
    """Runs code in every special method."""

    def __new__(cls, *args: object) -> NoReturn:
        raise AssertionError("__new__ ran")

    def __init__(self) -> None:
        raise AssertionError("__init__ ran")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AssertionError("__setattr__ ran")

    def __str__(self) -> NoReturn:
        raise AssertionError("__str__ ran")

    @property
    def code(self) -> NoReturn:
        """A field that is computed."""
        raise AssertionError("a property ran")

    class Mined(Exception):
        """Runs code when it is deleted."""

        def __del__(self) -> None:
            raise AssertionError("__del__ ran")


def forged(name: str, **more: Any) -> Any:
    """The error read from a row of the current form, whatever wrote it."""
    return unpack_error(json.dumps({"type": name, "args": [], "message": "", "traceback": "", "form": 1, **more}))


def test_forged_row_runs_no_code_of_its_class() -> None:
    """No constructor, setter, property or finalizer runs, whatever a row says."""
    name = f"{__name__}.Armed"
    assert type(forged(name, args=[1], attributes={"code": 5, "__class__": 1, "__notes__": 3})) is Armed
    assert type(forged(f"{name}.Mined")) is ActivityFailed
    for spoilt in ({"$": "error", "v": 5}, {"$": {}, "v": 5}, {"$": "enum", "v": 5}, {"$": "object", "v": {}}):
        assert forged("builtins.ValueError", args=[spoilt]).args == (spoilt["v"],)
    inside: Any = 1
    for _ in range(200):
        inside = {"$": "tuple", "v": [inside]}
    assert type(forged("builtins.ValueError", args=[inside])) is ValueError
    text = forged("builtins.UnicodeDecodeError", args=["utf-8", "no bytes", -5, 9, "x"], attributes={"start": -9})
    assert str(text) == ""
    assert type(forged("builtins.ExceptionGroup", args=["m"], group=[])) is ActivityFailed


def test_error_of_any_size_is_bounded() -> None:
    """However much an error holds, and however deep, its stored form stays small and its class the same."""
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    error = ValueError(*range(5_000), "x" * 100_000)
    error.__dict__.update({f"a{number}": [deep, {"x": b"y" * 1_000}, ["z"] * 9_000] for number in range(2_000)})
    error.__cause__ = ExceptionGroup("many", [ValueError("y" * 1_000)] * 5_000)
    itself = KeyError("x")
    itself.args = (itself, [itself])
    for each in (error, itself):
        text = pack_error(each)
        assert len(text) < 200_000
        assert type(unpack_error(text)) is type(each)
