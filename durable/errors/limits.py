"""A workflow asks for more at once than the engine allows, or than Python can carry."""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError


@attrs.frozen(slots=False)
class TooManyWaits(DurableError):
    """A workflow has opened more branches and waits at once than `EngineConfig.max_open_waits`."""

    workflow: str
    limit: int

    says = (
        "workflow {workflow} opens more than {limit} branches and waits at once (max_open_waits): "
        "use fan_out(..., limit=...), split the work among children, or raise the limit"
    )


@attrs.frozen(slots=False)
class TooManyChildren(DurableError):
    """A workflow has started more children in one step than `EngineConfig.max_children_per_step`."""

    workflow: str
    limit: int

    says = (
        "workflow {workflow} starts more than {limit} children in one step (max_children_per_step): "
        "let it wait for something in between, such as sleep(1), or raise the limit"
    )


@attrs.frozen(slots=False)
class HelpersTooDeep(DurableError):
    """The helpers of a workflow call each other deeper than Python can carry on every replay."""

    workflow: str
    depth: int
    limit: int

    says = (
        "workflow {workflow}: its helpers are nested {depth} deep; {limit} is the most, two fifths of Python's limit: "
        "write a loop instead of the recursion, call a child workflow, or raise it with sys.setrecursionlimit and retry"
    )


@attrs.frozen(slots=False)
class TooDeepHere(DurableError):
    """A body cannot be rebuilt: it went deeper when it first ran than this process allows. Its workflow is parked."""

    workflow: str
    limit: int

    says = (
        "workflow {workflow} is too deep for this process: its code calls deeper than it may with Python's limit of "
        "{limit}; give the process the limit of the one in which it ran, or a higher one (sys.setrecursionlimit)"
    )
