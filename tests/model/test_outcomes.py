"""Errors survive being stored: as their own class where that is safe, as `ActivityFailed` otherwise."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import traceback
import types
from typing import Any, NoReturn

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from durable.errors import ActivityFailed, ActivityTimedOut, Cancelled, CodecError, WorkflowNotFound
from durable.model.error_codec import error_summary, pack_error, unpack_error


class Declined(Exception):
    class Inner(Exception):
        pass


@attrs.frozen(slots=False)
class Fielded(Exception):
    code: int
    why: str = ""


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    code: int


class NeedsKeyword(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")


class BadStr(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


class BadArgs(Exception):
    @property
    def args(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no")


class Counted(Exception):
    """Is falsy, like an empty collection."""

    def __len__(self) -> int:
        return 0


class Changing(Exception):
    count = 0

    def __str__(self) -> str:
        Changing.count += 1
        return str(Changing.count)


class Sly(str):
    __slots__ = ()

    def encode(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("no")


class SlyMessage(Exception):
    def __str__(self) -> str:
        return Sly("sly")


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    """The error with a traceback, as an activity would leave it."""
    try:
        raise error from cause
    except BaseException as caught:
        return caught


REBUILT: list[BaseException] = [
    ValueError("bad"), ValueError(), KeyError("key"), KeyError(1, [2, {"a": None}]), Declined("no funds", 5),
    Declined.Inner("x"), Fielded(5, "b"), Frozen(5), Counted(1), Cancelled("stop"), Cancelled(), SlyMessage("a"),
    ActivityFailed("x.Y", "m", "t"), ActivityTimedOut("charge", 1.5), WorkflowNotFound("id"), ValueError("ä€😀\0"),
    FileNotFoundError(2, "No such file", "/x"), OSError(18, "Cross-device", "/a", None, "/b"),
    PermissionError(13, "No"),
    ValueError("x" * 10_000), subprocess.CalledProcessError(1, ["ls"]), TimeoutError("slow"),
]  # fmt: skip


@pytest.mark.parametrize("error", REBUILT, ids=repr)
def test_rebuilt(error: BaseException) -> None:
    """An error of a loaded class with plain arguments comes back as that class with the same arguments."""
    back = unpack_error(pack_error(raised(error)))
    assert type(back) is type(error)
    assert back.args == error.args
    assert str(back) == str(error)
    assert "Stored traceback:\nTraceback (most recent call last)" in back.__notes__[0]
    assert "in raised" in "".join(traceback.format_exception(back))


def local_error() -> Exception:
    class Local(Exception):
        pass

    return Local("here")


NOT_REBUILT: list[tuple[BaseException, str]] = [
    (KeyboardInterrupt("stop"), "builtins.KeyboardInterrupt"), (SystemExit(3), "builtins.SystemExit"),
    (GeneratorExit(), "builtins.GeneratorExit"), (local_error(), f"{__name__}.local_error.<locals>.Local"),
    (BaseExceptionGroup("two", [KeyboardInterrupt()]), "builtins.BaseExceptionGroup"),
    (PydanticCustomError("odd", "odd"), "pydantic_core._pydantic_core.PydanticCustomError"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "name"), NOT_REBUILT, ids=lambda value: value if isinstance(value, str) else "")
def test_not_rebuilt(error: BaseException, name: str) -> None:
    """An error whose class is not loaded, must not be raised or cannot be filled comes back as `ActivityFailed`."""
    text = pack_error(raised(error))
    back = unpack_error(text)
    assert type(back) is ActivityFailed
    assert back.error_type == name
    assert (back.error_type, back.message) == error_summary(text)
    assert "in raised" in back.traceback


def test_traceback_tells_of_causes_contexts_and_groups() -> None:
    """Every line of code that led to an error is named, once, without carets."""
    try:
        try:
            raise KeyError("first")
        except KeyError as first:
            raise BaseExceptionGroup("several", [raised(ValueError("second")), first]) from first
    except BaseExceptionGroup as error:
        shown = json.loads(pack_error(error))["traceback"]
    assert "KeyError: 'first'" in shown
    assert "direct cause" in shown
    assert "ValueError: second" in shown
    assert "raise BaseExceptionGroup(" in shown
    assert "^" not in shown


def test_bad_str_is_contained() -> None:
    """An error whose `__str__` raises is stored with a message that says so."""
    text = pack_error(raised(BadStr("a")))
    assert error_summary(text) == (f"{__name__}.BadStr", "<the message cannot be shown: RuntimeError in __str__>")
    assert type(unpack_error(text)) is BadStr


def test_bad_traceback_is_contained(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error whose traceback cannot be shown is stored without it."""
    monkeypatch.setattr(traceback.TracebackException, "format", lambda self: self.missing)
    assert "<the traceback cannot be shown: AttributeError>" in pack_error(ValueError("a"))


@pytest.mark.parametrize("message", ["x" * 50_000_000, "\ud800" * 20_000])
def test_long_messages_are_cut(message: str) -> None:
    """Messages and tracebacks are bounded, keep their head and tail, and say that they were cut."""
    stored = json.loads(pack_error(raised(ValueError(message))))
    assert len(stored["args"][0]) <= 48_000
    assert "args[0] (str)" in stored["notes"][0]
    assert 7_900 <= len(stored["message"]) <= 8_000
    assert 15_900 <= len(stored["traceback"]) <= 16_000
    for text in (stored["message"], stored["traceback"]):
        assert "characters cut]" in text
    assert stored["traceback"].startswith("Traceback")
    assert len(error_summary(pack_error(type("Long" * 1_000, (Exception,), {})()))[0]) <= 1_000


def test_cause() -> None:
    """The causes come back too, also for a class that forbids setting attributes."""
    deep = raised(KeyError("b"), cause=ValueError("c"))
    for error in (Declined("a"), Frozen(1), NeedsKeyword(code=1)):
        back = unpack_error(pack_error(raised(error, cause=deep)))
        assert repr(back.__cause__) == "KeyError('b')"
        assert back.__cause__ is not None
        assert repr(back.__cause__.__cause__) == "ValueError('c')"
    itself = ValueError("a")
    itself.__cause__ = itself
    assert repr(unpack_error(pack_error(itself)).__cause__) == "ValueError('a')"


def stored(name: str, args: Any = (), message: str = "", **more: Any) -> str:
    return json.dumps({"type": name, "args": args, "message": message, "traceback": "", **more})


class LazyModule(types.ModuleType):
    def __getattribute__(self, name: str) -> NoReturn:
        raise AssertionError("code of a module ran")


class Proxy:
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise AssertionError("code of a proxy ran")


@pytest.mark.parametrize("name", [
    "", ".", "..", "ValueError", "builtins.", "builtins.eval", "builtins.int", "builtins.type",
    "builtins.BaseException",
    "os.system", "os.path.join", "subprocess.Popen", "no_such_module.Error", "antigravity.Error",
    "builtins.ValueError.mro",
    f"{__name__}.Declined.Inner.__init__", f"{__name__}.raised.__code__.co_name",
    "durable.errors.SessionClosed", "asyncio.exceptions.CancelledError", "x." * 1_000, "lazy.Error", "proxy.Error",
    "holder.Proxy", "holder.Proxy.Error", "\0", "ä.ö",
])  # fmt: skip
def test_names_that_are_no_loaded_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stored name that is not a loaded exception class gives `ActivityFailed` and runs no code."""
    monkeypatch.setitem(sys.modules, "lazy", LazyModule("lazy"))
    monkeypatch.setitem(sys.modules, "proxy", Proxy())
    holder = types.ModuleType("holder")
    vars(holder)["Proxy"] = Proxy()
    monkeypatch.setitem(sys.modules, "holder", holder)
    back = unpack_error(stored(name, ["twin"], "twin"))
    assert type(back) is ActivityFailed
    assert back.error_type == name


@pytest.mark.parametrize("text", [
    "", "{", "null", "5", "[]", "{}", '{"type":5,"args":[],"message":"","traceback":""}', "\ud800", b"\x80\x04K\x05.",
    None,
    '{"type":"a","args":{},"message":"","traceback":""}', stored("a", cause=5), "[" * 100_000,
])  # fmt: skip
def test_garbage(text: Any) -> None:
    """A text that is not a stored error is a `CodecError`."""
    for read in (unpack_error, error_summary):
        with pytest.raises(CodecError, match="stored error"):
            read(text)


WATCHED = ("import", "exec", "compile", "open", "os.", "subprocess.", "socket.", "shutil.", "ctypes.", "pickle.")
seen: list[str] | None = None


def watch(event: str, _args: Any) -> None:
    if seen is not None and event.startswith(WATCHED):
        seen.append(event)


sys.addaudithook(watch)

names = st.sampled_from(sorted(sys.modules)).flatmap(
    lambda module: st.sampled_from(sorted(getattr(sys.modules.get(module), "__dict__", ())) or ["x"]).map(
        f"{module}.{{}}".format
    )
)
values = st.none() | st.integers() | st.text() | st.lists(st.text(), max_size=2)


@settings(max_examples=500, deadline=None)
@given(names | st.text(), st.lists(values, max_size=3) | st.none(), st.text())
@example("os.system", ["true"], "true")
@example("subprocess.Popen", [["true"]], "")
@example("antigravity.Error", [], "")
@example("builtins.exec", ["import antigravity"], "")
def test_reading_runs_nothing(name: str, args: list[Any] | None, message: str) -> None:
    """Reading a stored error never imports, compiles, executes or opens anything, whatever it names."""
    global seen  # noqa: PLW0603  # an audit hook cannot be removed, so it is switched
    text = stored(name, args, message, cause=json.loads(stored(name, args, message)))
    seen = []
    try:
        back = unpack_error(text)
    finally:
        events, seen = seen, None
    assert events == []
    assert isinstance(back, Exception | Cancelled)
