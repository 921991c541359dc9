"""What is raised in a workflow body, or about one."""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError


@attrs.frozen(slots=False)
class TimedOut(DurableError, TimeoutError):
    """An operation did not finish within its limit."""

    operation: str
    seconds: float

    says = "{operation} did not finish within {seconds:g} s"


@attrs.frozen(slots=False)
class OperationMisused(DurableError, TypeError):
    """Workflow code used an operation in a way that cannot work."""

    problem: str

    def __str__(self) -> str:
        return self.problem


@attrs.frozen(slots=False)
class HistoryDiverged(DurableError):
    """The body asks for something else than what is recorded; the workflow is parked."""

    workflow_id: str
    position: str
    recorded: str
    asked: str

    says = (
        "workflow {workflow_id!r} no longer fits its history at position {position}\n"
        "  - recorded: {recorded}\n"
        "  + code asks: {asked}\n"
        "bring back the code that fits; nothing was lost and nothing was appended"
    )


class Cancelled(BaseException):
    """Raised at the current wait of a workflow that is being cancelled; clean up and let it pass."""

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason


class SessionClosed(BaseException):
    """Private: thrown through a body that is being closed, so that no operation runs in its `finally`."""
