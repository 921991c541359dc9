"""A typing error in the name of an event: it is queued, and nobody ever takes it.

Others may wait for it in another process, so this is a warning and no error, once for each name. It is given only if a
name that workflow code of this process waits for looks almost the same.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Iterable, Iterator
from types import CodeType
from typing import Any

from durable.runner.definitions import Definition, WorkflowDef
from durable.runner.events import Event

_log = logging.getLogger("durable")
# How alike two names must be, and by how many letters they may differ in length.
_ALIKE, _LETTERS = 0.85, 2
# How many names are looked at: a service that makes up names by the thousand is not slowed down.
_NAMES_MAX = 100


class Typos:
    """Looks at the names of events that nobody has taken."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def look(self, name: str, workflows: Iterable[WorkflowDef[Any, Any]]) -> None:
        """An event was queued: warn, the first time, if its name looks like a mistake."""
        if name in self._seen or len(self._seen) >= _NAMES_MAX:
            return
        self._seen.add(name)
        waited = _waited(workflows)
        meant = None if name in waited else _meant(name, waited)
        if meant is not None:
            _log.warning("no workflow here waits for event %r; did you mean %r?", name, meant)


def _meant(name: str, waited: Iterable[str]) -> str | None:
    plain = _without_numbers(name)
    near = [one for one in sorted(waited) if abs(len(one) - len(name)) <= _LETTERS and _without_numbers(one) != plain]
    return next(iter(difflib.get_close_matches(name, near, n=1, cutoff=_ALIKE)), None)


def _without_numbers(name: str) -> str:
    """`step-1` and `step-2` are two names, and no typing error."""
    return re.sub(r"[\d\W_]", "", name)


def _waited(workflows: Iterable[WorkflowDef[Any, Any]]) -> set[str]:
    """The names of the events that the modules of these workflows wait for, as far as their code tells."""
    spaces = {id(space): space for one in workflows if (space := getattr(one.fn, "__globals__", None)) is not None}
    names: set[str] = set()
    for space in spaces.values():
        used = {name for code in _codes(space.values()) for name in code.co_names if "wait" in code.co_names}
        names.update(value.name for key, value in space.items() if key in used and isinstance(value, Event))
    return names


def _codes(values: Iterable[object]) -> Iterator[CodeType]:
    """The code of functions, and of the functions inside them."""
    for value in list(values):
        code = getattr(value.fn if isinstance(value, Definition) else value, "__code__", None)
        todo = [code] if isinstance(code, CodeType) else []
        while todo:
            yield (one := todo.pop())
            todo += [const for const in one.co_consts if isinstance(const, CodeType)]
