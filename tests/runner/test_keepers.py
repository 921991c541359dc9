"""The search for functions that keep errors covers everything that a function names, directly or not."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from durable.runner.combinators import gather
from durable.runner.definitions import workflow
from durable.runner.kept_errors import may_keep_errors
from tests.runner.builders import Declined, charge, refuse
from tests.runner.test_kept_errors import Err, attempt


class Service:
    """Keeps errors in methods of several kinds."""

    def method(self) -> Any:
        """Keeps one."""
        try:
            return refuse()
        except Declined as error:
            return Err(error)

    @staticmethod
    def plain() -> Any:
        """Keeps one."""
        return attempt(1)


@contextlib.contextmanager
def collecting(errors: list[BaseException]) -> Iterator[None]:
    """Keeps one, around a block."""
    try:
        yield
    except Declined as error:
        errors.append(error)


@functools.lru_cache
def nothing() -> None:
    """Keeps nothing."""


service = Service()
bound = service.method
later = functools.partial(attempt, 1)
other: Any = types.ModuleType("kept_errors_other")
other.attempt, other.itself = attempt, other
attempting = workflow(name="kept.attempting")(attempt)


KEEPERS: dict[str, Callable[[], Any]] = {
    "function": lambda: attempt(1),
    "method": lambda: (service.method(),),
    "class": lambda: (Service(),),
    "static": lambda: (Service.plain(),),
    "bound": lambda: (bound(),),
    "partial": lambda: (later(),),
    "decorated": lambda: collecting([]),
    "module": lambda: other.itself.attempt(1),
    "workflow": lambda: attempting(1),
    "nested": lambda: [attempt(n) for n in range(3)],
}


@pytest.mark.parametrize("how", KEEPERS)
def test_keeper_is_found_by_name(how: str) -> None:
    """Everything that a function names, directly or not, is searched."""
    fn: Any = KEEPERS[how]
    assert may_keep_errors(fn.__code__, fn.__globals__)


def test_function_that_names_no_keeper_keeps_nothing() -> None:
    """The standard library and durable are not searched, and each function is searched only once."""

    # A class whose module cannot be found.
    lost = type("Lost", (), {"__module__": "gone"})()

    def again() -> Any:
        try:
            refuse()
        except Declined as error:
            return error.args
        return (again, nothing, gather, contextlib.ExitStack, functools.partial, service.__class__.__name__)

    assert not may_keep_errors(charge.fn.__code__)
    assert not may_keep_errors(again.__code__, {"nothing": nothing, "again": again, "gather": gather, "service": lost})


def test_neighbours_of_a_nested_function_are_searched() -> None:
    """A nested function can call functions that only its enclosing function names."""

    def keeper() -> Any:
        try:
            return refuse()
        except Declined as error:
            return Err(error)

    def asks() -> Any:
        return keeper()

    assert may_keep_errors(asks.__code__)


def test_code_without_a_module_uses_main() -> None:
    """Code typed into a notebook belongs to `__main__`."""
    code = compile("def typed(): return None", "<cell 1>", "exec").co_consts[0]
    assert not may_keep_errors(code)


LIBRARY = """
def keeps():
    try:
        return int("x")
    except ValueError as error:
        return [error]

def asks():
    return keeps()

class Safe:
    def __call__(self):
        try:
            return int("x")
        except ValueError as error:
            return [error]

class Other:
    def rest(self):
        try:
            return int("x")
        except ValueError as error:
            return [error]
"""


def test_library_is_searched_where_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a library only the named members count, although each of these objects keeps errors somewhere inside."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "kept_errors_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(folder))
    import kept_errors_library as library  # type: ignore[import-not-found]

    def asked(source: str) -> bool:
        code = compile(f"def asking(): return {source}", f"<{source}>", "exec").co_consts[0]
        return may_keep_errors(code, {"library": library, "Safe": library.Safe, "Other": library.Other})

    sources = ["library.keeps()", "Safe()()", "Other().rest()", "library.asks()", "Other()"]
    assert [asked(source) for source in sources] == [True, True, True, False, False]


def test_far_too_many_functions_are_doubtful() -> None:
    """Code that names a thousand functions is not blamed."""
    space: dict[str, Any] = {"__name__": "kept_many"}
    source = "\n".join(f"def f{n}(): return f{n + 1}()" for n in range(1100))
    exec(compile(source, "<many>", "exec"), space)
    assert may_keep_errors(space["f0"].__code__, space)
    assert not may_keep_errors(space["f1090"].__code__, space)
