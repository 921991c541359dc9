"""The results of durable's own functions: which of them make an operation, and which methods return one.

They are read off the annotations of the runner, so that a new verb needs no change here. This imports durable's code;
the code that is checked is never imported.
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
ENGINES = tuple(f"durable.{sync}Workflow{kind}" for sync in ("", "Sync") for kind in ("Engine", "Handle"))
# The verb that runs any function as an activity. The function that it gets does not run in the body.
CALL = "durable.call"
# Callables that make an activity or a workflow from a function. The function does not run in the body.
MAKING = ("durable.activity", "durable.workflow", CALL)
# Return annotations of functions whose results are useful only with `yield from` or `await`.
_PASSED_ON = ("Generator", "Coroutine", "Durable")


def public(dotted: str) -> str:
    """The public form of a name: `durable.runner.ops.sleep` is `durable.sleep`. Other names are unchanged."""
    top, *path = dotted.split(".")
    if top != "durable":
        return dotted
    module = top
    while path and f"{module}.{path[0]}" in sys.modules:
        module = f"{module}.{path.pop(0)}"
    return ".".join([top, *path])


def is_public(name: str) -> bool:
    """Whether `from durable import *` binds this name."""
    return name in getattr(sys.modules.get("durable"), "__all__", ())


def result_of(dotted: str) -> str | None:
    """The class of the result of calling this public name of durable, as a public name; None if it does not matter."""
    _, *path = dotted.split(".")
    target = _names().get(path[0]) if path else None
    if len(path) == 1 and path[0][:1].isupper():
        # A class. It need not be from the runner: the engine, for example.
        return OP if isinstance(target, type) and issubclass(target, Op) else dotted
    if len(path) == 2 and isinstance(target, type):
        target = _method(target, path[1])
    return _returned(target) if inspect.isfunction(target) else None


@functools.cache
def _names() -> dict[str, Any]:
    """The public functions and classes of the runner."""
    modules = [member for member in vars(runner).values() if inspect.ismodule(member)]
    return {
        name: member
        for module in modules
        for name, member in vars(module).items()
        if not name.startswith("_") and getattr(member, "__module__", "") == module.__name__
    }


def _method(owner: type, name: str) -> Any:
    """A method of a class or of its subclasses: an operation may be of any subclass."""
    classes = [
        owner,
        *(member for member in _names().values() if isinstance(member, type) and issubclass(member, owner)),
    ]
    methods = (inspect.getattr_static(cls, name, None) for cls in classes)
    return next((method for method in methods if method is not None), None)


def _returned(function: Any) -> str | None:
    """The public name of the class that a function is annotated to return; `Op` for anything to be yielded."""
    annotation = function.__annotations__.get("return", "")
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    head = re.match(r"\w*", text)
    name = head[0] if head else ""
    if name in _PASSED_ON:
        return OP
    cls = _names().get(name)
    if not isinstance(cls, type):
        return None
    return OP if issubclass(cls, Op) else f"durable.{name}"
