"""What durable's own names give: which functions make an operation, which methods keep it one.

Read off the annotations of the runner, so that a new verb is known here the day it exists. This is durable's code; the
code that is checked is never imported.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from typing import Any

from durable import runner
from durable.runner.ops import Op

OP = "durable.Op"
ACTIVITY = "durable.ActivityDef"
WORKFLOW = "durable.WorkflowDef"
CONTINUE = "durable.ContinueRequested"
ENGINES = tuple(f"durable.{sync}Workflow{one}" for sync in ("", "Sync") for one in ("Engine", "Handle"))
# The verb that runs any function as an activity: what it is given is not run in the body.
CALL = "durable.call"
# What makes an activity or a workflow of a function: the function does not run there.
MAKING = ("durable.activity", "durable.workflow", CALL)
# Results that only `yield from` or `await` can make use of.
_PASSED_ON = ("Generator", "Coroutine", "Durable")


def public(dotted: str) -> str:
    """A name of durable as users know it: `durable.runner.ops.sleep` is `durable.sleep`."""
    top, *rest = dotted.split(".")
    if top != "durable":
        return dotted
    module = top
    while rest and f"{module}.{rest[0]}" in sys.modules:
        module = f"{module}.{rest.pop(0)}"
    return ".".join([top, *rest])


def is_public(name: str) -> bool:
    """Whether `from durable import *` gives this name."""
    return name in getattr(sys.modules.get("durable"), "__all__", ())


def result_of(dotted: str) -> str | None:
    """What calling this public name of durable gives, as a public name; None if that is nothing of interest."""
    _, *path = dotted.split(".")
    found = _names().get(path[0]) if path else None
    if len(path) == 1 and path[0][:1].isupper():
        # A class, also one that is not the runner's: the engine.
        return OP if isinstance(found, type) and issubclass(found, Op) else dotted
    if len(path) == 2 and isinstance(found, type):
        found = _method(found, path[1])
    return _returned(found) if inspect.isfunction(found) else None


@functools.cache
def _names() -> dict[str, Any]:
    """The public functions and classes of the runner."""
    modules = [one for one in vars(runner).values() if inspect.ismodule(one)]
    return {
        name: one
        for module in modules
        for name, one in vars(module).items()
        if not name.startswith("_") and getattr(one, "__module__", "") == module.__name__
    }


def _method(owner: type, name: str) -> Any:
    """A method of a class; of an operation, that of whichever sort of operation has it."""
    owners = [owner, *(one for one in _names().values() if isinstance(one, type) and issubclass(one, owner))]
    return next((found for one in owners if (found := inspect.getattr_static(one, name, None)) is not None), None)


def _returned(function: Any) -> str | None:
    annotation = function.__annotations__.get("return", "")
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    head = re.match(r"\w*", text)
    name = head[0] if head else ""
    if name in _PASSED_ON:
        return OP
    found = _names().get(name)
    if not isinstance(found, type):
        return None
    return OP if issubclass(found, Op) else f"durable.{name}"
