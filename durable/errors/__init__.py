"""Every error that durable raises on purpose: one tree, one file per noun."""

from durable.errors.activities import ActivityFailed, ActivityTimedOut, NonRetryable, RetryAfter
from durable.errors.base import DurableError, InvariantViolated
from durable.errors.bodies import Cancelled, HistoryDiverged, OperationMisused, SessionClosed, TimedOut
from durable.errors.children import ChildDepthExceeded, ChildWorkflowCancelled, ChildWorkflowFailed
from durable.errors.engine import EngineClosed, EngineForked
from durable.errors.events import DeadLetterNotFound, EventConflict, EventNotFound, EventTypeMismatch, PendingEventsFull
from durable.errors.limits import HelpersTooDeep, TooDeepHere, TooManyChildren, TooManyWaits
from durable.errors.pauses import PauseAlreadyAnswered, PauseCancelled, PauseExpired, PauseNotFound
from durable.errors.registration import DuplicateActivity, DuplicateWorkflow, RegistrationError, UnknownWorkflow
from durable.errors.remote import NotAcrossShards, NotSupported, RemoteError, WrongShard
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
    "DeadLetterNotFound",
    "DuplicateActivity",
    "DuplicateWorkflow",
    "DurableError",
    "EngineClosed",
    "EngineForked",
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
