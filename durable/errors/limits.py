"""A workflow asks for more at once than the engine allows or Python can handle.

A workflow that exceeds one of the first three limits fails with the error, and its body cannot catch it: what a body
sees must not depend on a setting that may have changed when it is replayed. The last two come from Python's recursion
limit. A replay runs the same code on a deeper stack, so a body may use only part of the limit when it first runs.
"""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError


@attrs.frozen(slots=False)
class TooManyWaits(DurableError):
    """A workflow opened more branches and waits at once than `EngineConfig.max_open_waits`."""

    workflow: str
    limit: int

    says = (
        "workflow {workflow} opens more than {limit} branches and waits at once (max_open_waits): "
        "use fan_out(..., limit=...), divide the work among children, or raise the limit"
    )


@attrs.frozen(slots=False)
class TooManyChildren(DurableError):
    """A workflow started more children in one step than `EngineConfig.max_children_per_step`.

    A step is what the body does between two waits. All of its children are stored in one commit.
    """

    workflow: str
    limit: int

    says = (
        "workflow {workflow} starts more than {limit} children in one step (max_children_per_step): "
        "add a wait between them, such as sleep(1), or raise the limit"
    )


@attrs.frozen(slots=False)
class HelpersTooDeep(DurableError):
    """The helpers of a workflow call each other too deeply for every later replay to succeed."""

    workflow: str
    depth: int
    limit: int

    says = (
        "the helpers of workflow {workflow} are nested {depth} deep; the limit is {limit}, two fifths of Python's: "
        "replace the recursion by a loop or a child workflow, or call sys.setrecursionlimit and retry"
    )


@attrs.frozen(slots=False)
class TooDeepHere(DurableError):
    """A body cannot be rebuilt: it went deeper when it first ran than this process allows. The workflow is parked."""

    workflow: str
    limit: int

    says = (
        "workflow {workflow} is too deep for this process: its calls are nested deeper than Python's recursion limit "
        "of {limit} allows; call sys.setrecursionlimit with the limit of the process in which it first ran, or more"
    )
