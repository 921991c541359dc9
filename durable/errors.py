"""Every error that durable raises on purpose.

One tree under `DurableError`: fields rather than prose, and a message, built from the fields, that says what to do
next. They are frozen attrs classes without slots, because some also derive from a built-in error. `InvariantViolated`
stands outside the tree, so that nobody handles a bug of ours by accident; `Cancelled` is a `BaseException`, so that
`except Exception` in a workflow does not swallow a cancellation.
"""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

import attrs

from durable import statuses


class DurableError(Exception):
    """The base of every error that durable raises on purpose. `says` is its message, with the names of its fields."""

    says: ClassVar[str] = ""

    def __str__(self) -> str:
        return self.says.format_map(vars(self)) if self.says else super().__str__()

    def __reduce__(self) -> tuple[type[DurableError], tuple[object, ...]]:
        # Frozen fields are set by __init__ only, so a copy is built from them and not patched.
        return type(self), self.args


# --- what the caller passed ---------------------------------------------------------------------------------------


@attrs.frozen(slots=False)
class _Refused(DurableError):
    """Something the caller passed cannot be used."""

    what: str
    problem: str

    says = "{what}: {problem}"


class InvalidValue(_Refused, ValueError):
    """An argument has the right type and a senseless value."""


class WrongType(_Refused, TypeError):
    """An argument has a type that cannot be used here."""


@attrs.frozen(slots=False)
class CodecError(DurableError, ValueError):
    """A value cannot be stored as JSON and read back as the same value."""

    where: str
    problem: str

    says = "{where}: {problem}"


@attrs.frozen(slots=False)
class PayloadTooLarge(DurableError, ValueError):
    """A value is larger than `EngineConfig.max_payload_bytes`."""

    where: str
    size: int
    limit: int

    says = (
        "{where}: {size} bytes are more than max_payload_bytes={limit}; "
        "store the data elsewhere and pass a reference to it"
    )


# --- registration -------------------------------------------------------------------------------------------------


class RegistrationError(DurableError):
    """The workflows that this process knows do not fit together."""


@attrs.frozen(slots=False)
class UnknownWorkflow(RegistrationError):
    """No workflow of this name and version is registered in this process."""

    name: str
    version: int

    says = (
        "no workflow {name!r} version {version} is registered: import the module that defines it "
        "before the engine starts, or pass it in workflows=[...]"
    )


@attrs.frozen(slots=False)
class DuplicateWorkflow(RegistrationError):
    """Two different functions claim one workflow name and version."""

    name: str
    version: int
    first: str
    second: str

    says = (
        "workflow {name!r} version {version} is defined by both {first} and {second}: "
        "give one of them another name= or version="
    )


# --- callers of the engine ----------------------------------------------------------------------------------------


@attrs.frozen(slots=False)
class WorkflowNotFound(DurableError, LookupError):
    """No workflow with this id is stored."""

    workflow_id: str

    says = "no workflow with id {workflow_id!r} is stored"


@attrs.frozen(slots=False)
class WorkflowAlreadyExists(DurableError):
    """The id belongs to a workflow that was started with another call, other tags or another delay."""

    workflow_id: str
    name: str
    difference: str = "the id is taken"

    says = "workflow {workflow_id!r} exists already as {name!r}: {difference}; use another id, or repeat the same call"


class WorkflowTerminated(statuses.EndedWorkflow, DurableError):
    """The workflow has ended, with this `status`, so it can take nothing more."""


@attrs.frozen(slots=False)
class WorkflowFailed(DurableError):
    """The workflow ended with an error; `__cause__` is the original one."""

    workflow_id: str
    error_type: str
    message: str

    says = "workflow {workflow_id!r} failed with {error_type}: {message}"


@attrs.frozen(slots=False)
class WorkflowCancelled(DurableError):
    """The workflow was cancelled or terminated."""

    workflow_id: str
    reason: str | None

    def __str__(self) -> str:
        return f"workflow {self.workflow_id!r} was cancelled" + (f": {self.reason}" if self.reason else "")


@attrs.frozen(slots=False)
class PendingEventsFull(DurableError):
    """Too many events wait in the mailbox of a workflow, or untargeted under a name; this one was not accepted."""

    name: str
    limit: int
    mailbox: str | None = None

    def __str__(self) -> str:
        place = f"events named {self.name!r}" if self.mailbox is None else f"events for workflow {self.mailbox!r}"
        what = f"{self.limit} {place} are pending already (max_pending_events): nothing was stored"
        return f"{what}; let workflows take some, or send again later"


@attrs.frozen(slots=False)
class EventConflict(DurableError):
    """The sender's event id was used before for another event."""

    event_id: str

    says = "event id {event_id!r} was used before with another payload, name, key or target; use a new id"


@attrs.frozen(slots=False)
class DeadLetterNotFound(DurableError, LookupError):
    """No dead letter with this id is stored."""

    letter_id: int

    says = "no dead letter {letter_id}: it may have been replayed or removed"


# --- inside a workflow; the same on replay ------------------------------------------------------------------------


@attrs.frozen(slots=False)
class ActivityFailed(DurableError):
    """An activity failed with an error whose class cannot be rebuilt here."""

    error_type: str
    message: str
    traceback: str = ""

    says = "{error_type}: {message}"


@attrs.frozen(slots=False)
class ActivityTimedOut(DurableError, TimeoutError):
    """One attempt of an activity took longer than its timeout."""

    activity: str
    seconds: float

    says = "activity {activity!r} did not finish within {seconds:g} s"


@attrs.frozen(slots=False)
class TimedOut(DurableError, TimeoutError):
    """An operation did not finish within its limit."""

    operation: str
    seconds: float

    says = "{operation} did not finish within {seconds:g} s"


class ChildWorkflowFailed(WorkflowFailed):
    """An awaited child ended with an error; `__cause__` is the original one."""

    def __str__(self) -> str:
        return f"child {super().__str__()}"


class ChildWorkflowCancelled(WorkflowCancelled):
    """An awaited child was cancelled."""

    def __str__(self) -> str:
        return f"child {super().__str__()}"


@attrs.frozen(slots=False)
class ChildDepthExceeded(DurableError):
    """Children have started children beyond the limit."""

    workflow_id: str
    limit: int

    says = (
        "workflow {workflow_id!r} is {limit} children deep (max_child_depth): "
        "does a workflow start itself? Use continue_as for endless work"
    )


class NonRetryable(DurableError):
    """Raise it, or a subclass, in an activity to stop retrying."""

    # Not frozen: a subclass may have fields and an __init__ of its own.
    def __init__(self, message: str = "", *more: object) -> None:
        super().__init__(message, *more)
        self.message = message

    def __str__(self) -> str:
        return str(self.message)  # `raise NonRetryable(error)` is written too


class RetryAfter(DurableError):
    """Raise it, or a subclass, in an activity to say when the next attempt may run."""

    def __init__(self, delay: timedelta | float, message: str = "") -> None:
        self.delay = delay.total_seconds() if isinstance(delay, timedelta) else delay
        self.message = message
        super().__init__(self.delay, message)

    def __str__(self) -> str:
        return str(self.message or f"retry after {self.delay}")


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


# --- the engine and its store -------------------------------------------------------------------------------------


@attrs.frozen(slots=False)
class EngineClosed(DurableError):
    """The engine is not open: not entered yet, shutting down, or shut down."""

    problem: str = "the engine is shut down"

    says = "{problem}; use it inside 'async with'"


@attrs.frozen(slots=False)
class EngineForked(DurableError):
    """The engine was opened in another process and does not survive a fork."""

    opened_in: int

    says = "this engine belongs to process {opened_in}: open an engine of its own after the fork"


class StorageError(DurableError):
    """Something is wrong with the store."""


@attrs.frozen(slots=False)
class StorageUnavailable(StorageError):
    """The store does not take writes; what was not acknowledged may not be stored."""

    problem: str

    says = "the store is unavailable: {problem}; put it right and restart the service, it recovers by itself"


@attrs.frozen(slots=False)
class StoreUnusable(StorageError):
    """This path cannot hold a store or a backup, or its file is damaged or was taken away; nothing was changed."""

    store: str
    problem: str

    says = "cannot use {store!r} as a store: {problem}"


@attrs.frozen(slots=False)
class StoreInUse(StorageError):
    """Another engine works on this store."""

    store: str
    holder: str

    says = "{store!r} is in use by {holder}: one engine per file; stop that one first"


@attrs.frozen(slots=False)
class StoreTooNew(StorageError):
    """The store was written by a newer durable."""

    store: str
    found: int
    known: int

    says = (
        "{store!r} has schema version {found}, this durable knows up to {known}: "
        "upgrade durable-engine; nothing was changed"
    )


@attrs.frozen(slots=False)
class StoreFenced(StorageError):
    """Another incarnation has taken the store over; this one must not write any more."""

    store: str

    says = "another engine has taken over {store!r}; this one stops"


class InvariantViolated(Exception):
    """A bug in durable; please report it. Not a `DurableError`, so nobody handles it by accident."""
