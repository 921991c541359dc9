"""Exit codes, and the one table that turns an error into one.

Scripts depend on these numbers, so they are part of the interface: docs/cli.md lists them.
"""

from __future__ import annotations

import click

from durable.errors import (
    CodecError,
    DeadLetterNotFound,
    DurableError,
    EngineNotRunning,
    EngineUnreachable,
    EventNotFound,
    EventTypeMismatch,
    InvalidValue,
    PauseNotFound,
    PayloadTooLarge,
    ScheduleNotFound,
    StorageError,
    StorageUnavailable,
    UnknownEvent,
    UnknownWorkflow,
    WorkflowNotFound,
    WrongType,
)

DONE, FAILED, USAGE, REFUSED, NOT_FOUND, NO_ENGINE = 0, 1, 2, 3, 4, 5
# Only `result` ends with these.
RUN_FAILED, RUN_CANCELLED, RUN_PARKED, TIMED_OUT = 6, 7, 8, 124
INTERRUPTED = 130
# Only `worker` uses these two in this way: they tell a supervisor to start it again, or not to.
RESTART, DO_NOT_RESTART = 1, 2

# The first row that fits decides, so a class comes before its bases.
CODES: tuple[tuple[type[BaseException], int], ...] = (
    (WorkflowNotFound, NOT_FOUND),
    (PauseNotFound, NOT_FOUND),
    (EventNotFound, NOT_FOUND),
    (DeadLetterNotFound, NOT_FOUND),
    (ScheduleNotFound, NOT_FOUND),
    (UnknownWorkflow, NOT_FOUND),
    (UnknownEvent, NOT_FOUND),
    (EngineNotRunning, NO_ENGINE),
    (EngineUnreachable, NO_ENGINE),
    (StorageUnavailable, FAILED),
    (StorageError, REFUSED),
    (PermissionError, REFUSED),
    (CodecError, USAGE),
    (PayloadTooLarge, USAGE),
    (EventTypeMismatch, USAGE),
    (InvalidValue, USAGE),
    (WrongType, USAGE),
    (DurableError, FAILED),
    (TimeoutError, TIMED_OUT),
    (OSError, FAILED),
)


class Refusal(click.ClickException):
    """A command that ends with one sentence and an exit code of the table above."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def code_of(error: BaseException) -> int | None:
    """The exit code for an error; None for one that is a bug, in durable or in the user's code."""
    if isinstance(error, Refusal):
        return error.code
    if isinstance(error, click.ClickException):
        return USAGE
    return next((code for kind, code in CODES if isinstance(error, kind)), None)
