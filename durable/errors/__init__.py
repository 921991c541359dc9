"""Every error that durable raises on purpose: one tree, one file per noun.

The root is `DurableError`, so `except DurableError` catches every error that is meant for a caller. Three classes are
not in the tree. `Cancelled` and `SessionClosed` derive from `BaseException`: they pass through a workflow body, and an
`except Exception` in the body must not swallow them. `InvariantViolated` reports a bug in durable and must not be
handled by accident.

Most errors are frozen attrs classes. The fields are the arguments, and `says` is the message: a template over the
fields. So an error has one text, written next to its class, and callers read fields instead of parsing messages. A
message says what is wrong, names the value, and says what to do next.

What happens to an error after it is raised depends on where that was:

- in a caller's process: it reaches the caller as it is;
- in an activity or a body: `model.error_codec` stores it, by its stored name, its `args` and its message;
- across a wire: `engine.remote.errors` sends its stored name, fields and message, and `RemoteError` replaces any
  error that the receiving version does not have.

Three rules follow.

- The stored name of a class is a format. `model.exceptions.stored_names` pins it, so a class may move to another file
  but may not change its name.
- Field names are a format as well, because they travel. New fields need defaults.
- Messages are for people. They may change in any version, and no code may compare them.

This room imports nothing from durable except `model.statuses`. It knows nothing about stores, engines or bodies.

Where to look:

| file           | errors about                                                        |
|----------------|---------------------------------------------------------------------|
| `base`         | the root of the tree, and `InvariantViolated`                       |
| `values`       | arguments and results that cannot be used or stored                 |
| `registration` | definitions that clash or are missing                               |
| `workflows`    | a workflow that does not exist, exists already, ended or is parked  |
| `bodies`       | what a workflow body meets: limits in time, misuse, divergence      |
| `activities`   | failed attempts, and how an activity steers its retries             |
| `children`     | a child that failed, was cancelled or is nested too deeply          |
| `events`       | events, mailboxes and dead letters                                  |
| `pauses`       | questions and their answers                                         |
| `schedules`    | schedules and their runs                                            |
| `limits`       | more branches, children or recursion than allowed                   |
| `repairs`      | a refused retry, fork or repair                                     |
| `storage`      | the store                                                           |
| `engine`       | an engine that is closed or was forked                              |
| `remote`       | an engine in another process, of another version                    |
"""

from durable.errors.activities import ActivityFailed, ActivityTimedOut, NonRetryable, RetryAfter
from durable.errors.base import DurableError, InvariantViolated
from durable.errors.bodies import Cancelled, HistoryDiverged, OperationMisused, SessionClosed, TimedOut
from durable.errors.children import ChildDepthExceeded, ChildWorkflowCancelled, ChildWorkflowFailed
from durable.errors.engine import EngineClosed, EngineForked
from durable.errors.events import (
    DeadLetterNotFound,
    EventConflict,
    EventNotFound,
    EventTypeMismatch,
    PendingEventsFull,
    UnknownEvent,
)
from durable.errors.limits import HelpersTooDeep, TooDeepHere, TooManyChildren, TooManyWaits
from durable.errors.pauses import PauseAlreadyAnswered, PauseCancelled, PauseExpired, PauseNotFound
from durable.errors.registration import DuplicateActivity, DuplicateWorkflow, RegistrationError, UnknownWorkflow
from durable.errors.remote import (
    ConnectionLost,
    EngineNotRunning,
    EngineUnreachable,
    NotAcrossShards,
    NotSupported,
    ProtocolMismatch,
    RemoteError,
    WrongShard,
)
from durable.errors.repairs import CannotFork, CannotRepair, CannotRetry
from durable.errors.schedules import ScheduleAlreadyExists, ScheduleBusy, ScheduleNotFound
from durable.errors.storage import StorageError, StorageUnavailable, StoreFenced, StoreInUse, StoreTooNew, StoreUnusable
from durable.errors.values import CodecError, InvalidValue, PayloadTooLarge, WrongType
from durable.errors.workflows import (
    WorkflowAlreadyExists,
    WorkflowCancelled,
    WorkflowFailed,
    WorkflowNotFound,
    WorkflowParked,
    WorkflowTerminated,
    WrongWorkflow,
)

__all__ = [
    "ActivityFailed",
    "ActivityTimedOut",
    "Cancelled",
    "CannotFork",
    "CannotRepair",
    "CannotRetry",
    "ChildDepthExceeded",
    "ChildWorkflowCancelled",
    "ChildWorkflowFailed",
    "CodecError",
    "ConnectionLost",
    "DeadLetterNotFound",
    "DuplicateActivity",
    "DuplicateWorkflow",
    "DurableError",
    "EngineClosed",
    "EngineForked",
    "EngineNotRunning",
    "EngineUnreachable",
    "EventConflict",
    "EventNotFound",
    "EventTypeMismatch",
    "HelpersTooDeep",
    "HistoryDiverged",
    "InvalidValue",
    "InvariantViolated",
    "NonRetryable",
    "NotAcrossShards",
    "NotSupported",
    "OperationMisused",
    "PauseAlreadyAnswered",
    "PauseCancelled",
    "PauseExpired",
    "PauseNotFound",
    "PayloadTooLarge",
    "PendingEventsFull",
    "ProtocolMismatch",
    "RegistrationError",
    "RemoteError",
    "RetryAfter",
    "ScheduleAlreadyExists",
    "ScheduleBusy",
    "ScheduleNotFound",
    "SessionClosed",
    "StorageError",
    "StorageUnavailable",
    "StoreFenced",
    "StoreInUse",
    "StoreTooNew",
    "StoreUnusable",
    "TimedOut",
    "TooDeepHere",
    "TooManyChildren",
    "TooManyWaits",
    "UnknownEvent",
    "UnknownWorkflow",
    "WorkflowAlreadyExists",
    "WorkflowCancelled",
    "WorkflowFailed",
    "WorkflowNotFound",
    "WorkflowParked",
    "WorkflowTerminated",
    "WrongShard",
    "WrongType",
    "WrongWorkflow",
]
