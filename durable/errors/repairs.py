"""`engine.runs.retry`, `fork` or `repair` is refused. Nothing was written.

Each error carries a `problem` written by the check that failed, in `durable.engine.repair`.
"""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError


@attrs.frozen(slots=False)
class CannotRetry(DurableError):
    """The workflow cannot continue from where it stopped."""

    workflow_id: str
    problem: str

    says = "workflow {workflow_id!r} cannot be retried: {problem}"


@attrs.frozen(slots=False)
class CannotFork(DurableError):
    """The workflow cannot be forked from this position."""

    workflow_id: str
    position: str
    problem: str

    says = "workflow {workflow_id!r} cannot be forked from position {position}: {problem}"


@attrs.frozen(slots=False)
class CannotRepair(DurableError):
    """The record at this position cannot be replaced, or not by this value."""

    workflow_id: str
    position: str
    problem: str

    says = "workflow {workflow_id!r} cannot be repaired at position {position}: {problem}"
