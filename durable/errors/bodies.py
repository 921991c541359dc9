"""Errors raised in a workflow body, or about one.

`Cancelled` and `SessionClosed` derive from `BaseException`: an `except Exception` in a body must not swallow them.
"""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError


@attrs.frozen(slots=False)
class TimedOut(DurableError, TimeoutError):
    """An operation did not finish within its limit. It was withdrawn, so its late result is ignored."""

    operation: str
    seconds: float

    says = "{operation} did not finish within {seconds:g} s"


@attrs.frozen(slots=False)
class OperationMisused(DurableError, TypeError):
    """Workflow code used an operation in a way that cannot work. `problem` says which, and how to write it."""

    problem: str

    def __str__(self) -> str:
        return self.problem


@attrs.frozen(slots=False)
class HistoryDiverged(DurableError):
    """The body asks for something other than what is recorded. The workflow is parked, and its history is unchanged."""

    workflow_id: str
    position: str
    recorded: str
    asked: str

    says = (
        "the code of workflow {workflow_id!r} no longer matches its history at position {position}\n"
        "  - recorded: {recorded}\n"
        "  + code asks: {asked}\n"
        "Deploy code that matches the history; nothing was lost and nothing was added"
    )


class Cancelled(BaseException):
    """Raised at the current wait of a workflow that is being cancelled. Clean up, then let it propagate."""

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason


class SessionClosed(BaseException):
    """Private: thrown into a body that is being closed, so that its `finally` blocks cannot run operations."""
