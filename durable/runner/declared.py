"""The events that the code of workflows declares: how an engine knows an `Event` by its name.

An `Event` is an ordinary value, and nothing registers it. The engine knows those that it can reach from the functions
of its workflows: their closures, their modules, the modules that these refer to, and the classes in them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from durable.runner.definitions import Definition, WorkflowDef
from durable.runner.events import Event


def declared_events(workflows: Iterable[WorkflowDef[Any, Any]]) -> dict[str, Event[Any]]:
    """The events that these workflows can refer to, by name. Of two with one name, the one that is nearer counts."""
    flows = list(workflows)
    events: dict[str, Event[Any]] = {}
    for value in [*_enclosed(flows), *_held(spaces_of(flows))]:
        if isinstance(value, Event):
            events.setdefault(value.name, value)
    return events


def _enclosed(workflows: Iterable[WorkflowDef[Any, Any]]) -> Iterator[object]:
    """What the functions of workflows have taken from the functions around them."""
    for flow in workflows:
        for cell in getattr(flow.fn, "__closure__", None) or ():
            try:
                yield cell.cell_contents
            except ValueError:
                # The function around it has not set this variable yet.
                continue


def _held(spaces: Iterable[dict[str, Any]]) -> Iterator[object]:
    """The values of these spaces, and then those of the classes and modules in them."""
    values = [value for space in spaces for value in list(space.values())]
    yield from values
    for value in values:
        if is_holder(value):
            yield from list(vars(value).values())


def spaces_of(workflows: Iterable[WorkflowDef[Any, Any]]) -> list[dict[str, Any]]:
    """The globals of the modules that define these workflows, and then of the modules that those refer to."""
    spaces = {id(space): space for flow in workflows if (space := getattr(flow.fn, "__globals__", None)) is not None}
    for space in list(spaces.values()):
        spaces.update((id(inner), inner) for value in list(space.values()) if (inner := _space_of(value)) is not None)
    return list(spaces.values())


def _space_of(value: object) -> dict[str, Any] | None:
    """The globals of a module, or of a function's module; None for anything else, and for library code."""
    if isinstance(value, Definition):
        value = value.fn
    space = vars(value) if isinstance(value, ModuleType) else getattr(value, "__globals__", None)
    top = str(space.get("__name__")).partition(".")[0] if isinstance(space, dict) else "durable"
    return None if top == "durable" or top in sys.stdlib_module_names else space


def is_holder(value: object) -> bool:
    """Whether a value may have events as attributes: `events.approval`, `Events.approval`."""
    return isinstance(value, (type, ModuleType))
