"""Every error that durable raises on purpose.

One tree under `DurableError`: fields rather than prose, and a message, built from the fields, that says what to do
next. `InvariantViolated` stands outside the tree, so that nobody handles a bug of ours by accident; `Cancelled` is a
`BaseException`, so that `except Exception` in a workflow does not swallow a cancellation.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import attrs
from typing_extensions import dataclass_transform

_C = TypeVar("_C", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(attrs.field,))
def _error(cls: _C) -> _C:
    """A frozen attrs exception; without slots, because some of these also derive from a built-in error."""
    make: Callable[[_C], _C] = attrs.frozen(slots=False)
    return make(cls)


class DurableError(Exception):
    """The base of every error that durable raises on purpose."""

    def __reduce__(self) -> tuple[type[DurableError], tuple[object, ...]]:
        # Frozen fields are set by __init__ only, so a copy is built from them and not patched.
        return type(self), self.args


# --- what the caller passed ---------------------------------------------------------------------------------------


@_error
class _Refused(DurableError):
    what: str
    problem: str

    def __str__(self) -> str:
        return f"{self.what}: {self.problem}"


class InvalidValue(_Refused, ValueError):
    """An argument has the right type and a senseless value."""


class WrongType(_Refused, TypeError):
    """An argument has a type that cannot be used here."""


@_error
class CodecError(DurableError, ValueError):
    """A value cannot be stored as JSON and read back as the same value."""

    where: str
    problem: str

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


@_error
class PayloadTooLarge(DurableError, ValueError):
    """A value is larger than `EngineConfig.max_payload_bytes`."""

    where: str
    size: int
    limit: int

    def __str__(self) -> str:
        return (
            f"{self.where}: {self.size} bytes are more than max_payload_bytes={self.limit}; "
            "store the data elsewhere and pass a reference to it"
        )


# --- registration -------------------------------------------------------------------------------------------------


class RegistrationError(DurableError):
    """The workflows that this process knows do not fit together."""


@_error
class UnknownWorkflow(RegistrationError):
    """No workflow of this name and version is registered in this process."""

    name: str
    version: int

    def __str__(self) -> str:
        return (
            f"no workflow {self.name!r} version {self.version} is registered: import the module that defines it "
            "before the engine starts, or pass it in workflows=[...]"
        )


@_error
class DuplicateWorkflow(RegistrationError):
    """Two different functions claim one workflow name and version."""

    name: str
    version: int
    first: str
    second: str

    def __str__(self) -> str:
        return (
            f"workflow {self.name!r} version {self.version} is defined by both {self.first} and {self.second}: "
            "give one of them another name= or version="
        )


# --- callers of the engine ----------------------------------------------------------------------------------------


@_error
class WorkflowNotFound(DurableError, LookupError):
    """No workflow with this id is stored."""

    workflow_id: str

    def __str__(self) -> str:
        return f"no workflow with id {self.workflow_id!r} is stored"


@_error
class WorkflowAlreadyExists(DurableError):
    """The id belongs to a workflow with another name or other arguments."""

    workflow_id: str
    name: str

    def __str__(self) -> str:
        return (
            f"workflow {self.workflow_id!r} exists already as {self.name!r} with another name or other arguments: "
            "use another id, or start it with the same call"
        )


@_error
class WorkflowTerminated(DurableError):
    """The workflow has ended, so it can take nothing more."""

    workflow_id: str
    status: str

    def __str__(self) -> str:
        return f"workflow {self.workflow_id!r} has ended ({self.status}) and takes no more events"


@_error
class WorkflowFailed(DurableError):
    """The workflow ended with an error; `__cause__` is the original one."""

    workflow_id: str
    error_type: str
    message: str

    def __str__(self) -> str:
        return f"workflow {self.workflow_id!r} failed with {self.error_type}: {self.message}"


@_error
class WorkflowCancelled(DurableError):
    """The workflow was cancelled or terminated."""

    workflow_id: str
    reason: str | None

    def __str__(self) -> str:
        return f"workflow {self.workflow_id!r} was cancelled" + (f": {self.reason}" if self.reason else "")


@_error
class PendingEventsFull(DurableError):
    """Too many events of this name wait to be taken; this one was not accepted."""

    name: str
    limit: int

    def __str__(self) -> str:
        return (
            f"{self.limit} events named {self.name!r} are pending already (max_pending_events): nothing was stored; "
            "let workflows take some, or send again later"
        )


@_error
class EventConflict(DurableError):
    """The sender's event id was used before for another event."""

    event_id: str

    def __str__(self) -> str:
        return f"event id {self.event_id!r} was used before with another payload, name, key or target; use a new id"


@_error
class DeadLetterNotFound(DurableError, LookupError):
    """No dead letter with this id is stored."""

    letter_id: int

    def __str__(self) -> str:
        return f"no dead letter {self.letter_id}: it may have been replayed or removed"


# --- inside a workflow; the same on replay ------------------------------------------------------------------------


@_error
class ActivityFailed(DurableError):
    """An activity failed with an error whose class cannot be rebuilt here."""

    error_type: str
    message: str
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.error_type}: {self.message}"


@_error
class ActivityTimedOut(DurableError, TimeoutError):
    """One attempt of an activity took longer than its timeout."""

    activity: str
    seconds: float

    def __str__(self) -> str:
        return f"activity {self.activity!r} did not finish within {self.seconds:g} s"


@_error
class TimedOut(DurableError, TimeoutError):
    """An operation did not finish within its limit."""

    operation: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.operation} did not finish within {self.seconds:g} s"


class ChildWorkflowFailed(WorkflowFailed):
    """An awaited child ended with an error; `__cause__` is the original one."""

    def __str__(self) -> str:
        return f"child {super().__str__()}"


class ChildWorkflowCancelled(WorkflowCancelled):
    """An awaited child was cancelled."""

    def __str__(self) -> str:
        return f"child {super().__str__()}"


@_error
class ChildDepthExceeded(DurableError):
    """Children have started children beyond the limit."""

    workflow_id: str
    limit: int

    def __str__(self) -> str:
        return (
            f"workflow {self.workflow_id!r} is {self.limit} children deep (max_child_depth): "
            "does a workflow start itself? Use continue_as for endless work"
        )


@_error
class NonRetryable(DurableError):
    """Raise it, or a subclass, in an activity to stop retrying."""

    message: str = ""

    def __str__(self) -> str:
        return self.message


@_error
class RetryAfter(DurableError):
    """Raise it in an activity to say when the next attempt may run."""

    delay: timedelta | float
    message: str = ""

    def __str__(self) -> str:
        return self.message or f"retry after {self.delay}"


@_error
class OperationMisused(DurableError, TypeError):
    """Workflow code used an operation in a way that cannot work."""

    problem: str

    def __str__(self) -> str:
        return self.problem


@_error
class HistoryDiverged(DurableError):
    """The body asks for something else than what is recorded; the workflow is parked."""

    workflow_id: str
    position: str
    recorded: str
    asked: str

    def __str__(self) -> str:
        return (
            f"workflow {self.workflow_id!r} no longer fits its history at position {self.position}\n"
            f"  - recorded: {self.recorded}\n"
            f"  + code asks: {self.asked}\n"
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


@_error
class EngineClosed(DurableError):
    """The engine is not open: not entered yet, shutting down, or shut down."""

    problem: str = "the engine is shut down"

    def __str__(self) -> str:
        return f"{self.problem}; use it inside 'async with'"


@_error
class EngineForked(DurableError):
    """The engine was opened in another process and does not survive a fork."""

    opened_in: int

    def __str__(self) -> str:
        return f"this engine belongs to process {self.opened_in}: open an engine of its own after the fork"


class StorageError(DurableError):
    """Something is wrong with the store."""


@_error
class StorageUnavailable(StorageError):
    """The store does not take writes; what was not acknowledged may not be stored."""

    problem: str

    def __str__(self) -> str:
        return f"the store is unavailable: {self.problem}; put it right and restart the service, it recovers by itself"


@_error
class StoreUnusable(StorageError):
    """This path or URL cannot hold a store; nothing was changed."""

    store: str
    problem: str

    def __str__(self) -> str:
        return f"cannot use {self.store!r} as a store: {self.problem}"


@_error
class StoreInUse(StorageError):
    """Another engine works on this store."""

    store: str
    holder: str

    def __str__(self) -> str:
        return f"{self.store!r} is in use by {self.holder}: one engine per file; stop that one first"


@_error
class StoreTooNew(StorageError):
    """The store was written by a newer durable."""

    store: str
    found: int
    known: int

    def __str__(self) -> str:
        return (
            f"{self.store!r} has schema version {self.found}, this durable knows up to {self.known}: "
            "upgrade durable-engine; nothing was changed"
        )


@_error
class StoreFenced(StorageError):
    """Another incarnation has taken the store over; this one must not write any more."""

    store: str

    def __str__(self) -> str:
        return f"another engine has taken over {self.store!r}; this one stops"


class InvariantViolated(Exception):
    """A bug in durable; please report it. Not a `DurableError`, so nobody handles it by accident."""
