"""Warning of a typing error in the name of an event, which would be kept and never taken.

A workflow of another process may wait for the name, so this is a warning and not an error, once for each name. It is
logged only if workflow code in this process waits for a name that looks almost the same.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Iterable
from functools import lru_cache
from types import CodeType, FunctionType, MethodType
from typing import Any

from durable.engine.decide.facts import notice
from durable.engine.decide.turn import Turn
from durable.model.records import PendingEvent
from durable.runner.declared import is_holder, spaces_of
from durable.runner.definitions import Definition, WorkflowDef
from durable.runner.events import Event

# How similar two names must be (1 is equal), and by how many letters they may differ in length.
_ALIKE, _LETTERS = 0.85, 2
_NUMBERS = re.compile(r"\d+")
# A number and the separators around it.
_REST = re.compile(r"[\d\W_]")
# How many names are checked, so that a service that generates names by the thousand is not slowed down.
_NAMES_MAX = 100


def look(turn: Turn, event: PendingEvent) -> None:
    """An event was kept because no workflow waits for it: warn, once per name, if its name looks like a mistake."""
    name, waits = event.name, turn.state.waits
    if name in waits.kept or name in waits.awaited or len(waits.kept) >= _NAMES_MAX:
        return
    waits.kept.add(name)
    waited = _waited(turn.state.registry, waits.awaited)
    guess = None if name in waited else meant(name, waited)
    if guess is not None:
        target = None if event.target is None else turn.state.by_key(event.target)
        text = f"no workflow here waits for event {name!r}; did you mean {guess!r}?"
        notice(turn, logging.WARNING, text, target)


def meant(name: str, waited: Iterable[str]) -> str | None:
    """The one of these names that was probably meant by another name; None if none looks like it."""
    near = [word for word in sorted(waited) if abs(len(word) - len(name)) <= _LETTERS and not _is_numbered(word, name)]
    return next(iter(difflib.get_close_matches(name, near, n=1, cutoff=_ALIKE)), None)


def _is_numbered(name: str, other: str) -> bool:
    """Whether two names differ in their numbers alone: `step-1` and `step-2` are two names and not a typing error."""
    return _NUMBERS.findall(name) != _NUMBERS.findall(other) and _REST.sub("", name) == _REST.sub("", other)


def _waited(workflows: Iterable[WorkflowDef[Any, Any]], awaited: Iterable[str]) -> set[str]:
    """The names of events that workflows here wait for, as far as the code of their modules shows, and of the modules
    that those refer to.

    A name that appears only at run time may contain a customer's id, and the next customer's name looks almost the
    same. So a name of `awaited` counts only if it appears in the code.
    """
    names: set[str] = set()
    texts: set[str] = set()
    for space in spaces_of(workflows):
        used: set[str] = set()
        for value in list(space.values()):
            fn = value.fn if isinstance(value, Definition) else value
            if isinstance(fn, (FunctionType, MethodType)):
                words, constants = _words(fn.__code__)
                used |= words
                texts |= constants
        holders = [space, *(vars(value) for key, value in space.items() if key in used and is_holder(value))]
        held = [(key, value) for holder in holders for key, value in list(holder.items()) if isinstance(value, Event)]
        names.update(value.name for key, value in held if key in used)
    return names.union(name for name in awaited if name in texts)


@lru_cache(maxsize=1024)
def _words(code: CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """The names and the text constants in those parts of a function that wait for something.

    The parts are the function itself and the functions inside it.
    """
    names: set[str] = set()
    texts: set[str] = set()
    todo = [code]
    while todo:
        part = todo.pop()
        todo += [const for const in part.co_consts if isinstance(const, CodeType)]
        if "wait" in part.co_names:
            names.update(part.co_names)
            texts.update(const for const in part.co_consts if isinstance(const, str))
    return frozenset(names), frozenset(texts)
