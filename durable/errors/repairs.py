"""`engine.runs.retry`, `fork` or `repair` is refused. Nothing was written."""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError


@attrs.frozen(slots=False)
class CannotRetry(DurableError):
    """The workflow cannot go on from where it stopped."""

    workflow_id: str
    problem: str

    says = "workflow {workflow_id!r} cannot be retried: {problem}"


@attrs.frozen(slots=False)
class CannotFork(DurableError):
    """There is no such place to fork the workflow from."""

    workflow_id: str
    position: str
    problem: str

    says = "workflow {workflow_id!r} cannot be forked from position {position}: {problem}"


@attrs.frozen(slots=False)
class CannotRepair(DurableError):
    """What is recorded at this position cannot be replaced, or not by this value."""

    workflow_id: str
    position: str
    problem: str

    says = "workflow {workflow_id!r} cannot be repaired at position {position}: {problem}"
