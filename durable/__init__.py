"""durable: workflows that survive crashes, deploys and months of waiting. These are the public names."""

from durable.codec import Codec
from durable.engine.activities import ActivityInfo, activity_info
from durable.engine.config import EngineConfig
from durable.engine.engine import WorkflowEngine
from durable.engine.handle import WorkflowHandle
from durable.engine.operations import Delivered, Queued
from durable.engine.sync import SyncWorkflowEngine
from durable.engine.sync_groups import SyncWorkflowHandle
from durable.engine.updates import WorkflowUpdate
from durable.engine.views import Description, OwedUndo, RecoveryReport, ScheduleSummary, Waiting, WorkflowSummary
from durable.errors import (
    ActivityFailed,
    ActivityTimedOut,
    Cancelled,
    ChildDepthExceeded,
    ChildWorkflowCancelled,
    ChildWorkflowFailed,
    CodecError,
    DeadLetterNotFound,
    DuplicateWorkflow,
    DurableError,
    EngineClosed,
    EngineForked,
    EventConflict,
    HistoryDiverged,
    InvalidValue,
    InvariantViolated,
    NonRetryable,
    OperationMisused,
    PayloadTooLarge,
    PendingEventsFull,
    RegistrationError,
    RetryAfter,
    StorageError,
    StorageUnavailable,
    StoreFenced,
    StoreInUse,
    StoreTooNew,
    StoreUnusable,
    TimedOut,
    UnknownWorkflow,
    WorkflowAlreadyExists,
    WorkflowCancelled,
    WorkflowFailed,
    WorkflowNotFound,
    WorkflowTerminated,
    WrongType,
)
from durable.event_errors import EventNotFound, EventTypeMismatch
from durable.letters import DeadLetter, DeadLetterReason, PendingEventInfo
from durable.limit_errors import HelpersTooDeep, TooManyChildren, TooManyWaits
from durable.outcomes import failed_undos, stored_traceback
from durable.pause_errors import (
    PauseAlreadyAnswered,
    PauseCancelled,
    PauseExpired,
    PauseNotFound,
    WorkflowParked,
    WrongWorkflow,
)
from durable.records import (
    DeadLetterPolicy,
    DeliveryMode,
    EntryKind,
    EntryStatus,
    FailedUndo,
    HistoryEntry,
    OnParentClose,
    OpenPause,
    ParkReason,
    WorkflowStatus,
)
from durable.registration_errors import DuplicateActivity
from durable.remote_errors import NotSupported, RemoteError
from durable.repair_errors import CannotFork, CannotRepair, CannotRetry
from durable.retry import Retry
from durable.runner.changes import patched, removed
from durable.runner.children import ChildHandle, spawn
from durable.runner.combinators import AllFailed, Outcome, Won, fan_out, first_success, gather, race, settle
from durable.runner.definitions import ActivityDef, Call, Durable, WorkflowCall, WorkflowDef, activity, call, workflow
from durable.runner.determinism import WorkflowInfo, info, now, random, uuid
from durable.runner.events import Event
from durable.runner.loops import Break, Continue, loop
from durable.runner.ops import Op, Raised, Returned, UseYieldFrom, sleep, sleep_until
from durable.runner.pauses import pause
from durable.runner.publishing import publish
from durable.runner.session import WorkflowSessionRunner
from durable.runner.undo import saga
from durable.schedule import CatchUp, Overlap
from durable.schedule_errors import ScheduleAlreadyExists, ScheduleBusy, ScheduleNotFound
from durable.version import VERSION

__version__ = VERSION

__all__ = [
    "ActivityDef",
    "ActivityFailed",
    "ActivityInfo",
    "ActivityTimedOut",
    "AllFailed",
    "Break",
    "Call",
    "Cancelled",
    "CannotFork",
    "CannotRepair",
    "CannotRetry",
    "CatchUp",
    "ChildDepthExceeded",
    "ChildHandle",
    "ChildWorkflowCancelled",
    "ChildWorkflowFailed",
    "Codec",
    "CodecError",
    "Continue",
    "DeadLetter",
    "DeadLetterNotFound",
    "DeadLetterPolicy",
    "DeadLetterReason",
    "Delivered",
    "DeliveryMode",
    "Description",
    "DuplicateActivity",
    "DuplicateWorkflow",
    "Durable",
    "DurableError",
    "EngineClosed",
    "EngineConfig",
    "EngineForked",
    "EntryKind",
    "EntryStatus",
    "Event",
    "EventConflict",
    "EventNotFound",
    "EventTypeMismatch",
    "FailedUndo",
    "HelpersTooDeep",
    "HistoryDiverged",
    "HistoryEntry",
    "InvalidValue",
    "InvariantViolated",
    "NonRetryable",
    "NotSupported",
    "OnParentClose",
    "Op",
    "OpenPause",
    "OperationMisused",
    "Outcome",
    "Overlap",
    "OwedUndo",
    "ParkReason",
    "PauseAlreadyAnswered",
    "PauseCancelled",
    "PauseExpired",
    "PauseNotFound",
    "PayloadTooLarge",
    "PendingEventInfo",
    "PendingEventsFull",
    "Queued",
    "Raised",
    "RecoveryReport",
    "RegistrationError",
    "RemoteError",
    "Retry",
    "RetryAfter",
    "Returned",
    "ScheduleAlreadyExists",
    "ScheduleBusy",
    "ScheduleNotFound",
    "ScheduleSummary",
    "StorageError",
    "StorageUnavailable",
    "StoreFenced",
    "StoreInUse",
    "StoreTooNew",
    "StoreUnusable",
    "SyncWorkflowEngine",
    "SyncWorkflowHandle",
    "TimedOut",
    "TooManyChildren",
    "TooManyWaits",
    "UnknownWorkflow",
    "UseYieldFrom",
    "Waiting",
    "Won",
    "WorkflowAlreadyExists",
    "WorkflowCall",
    "WorkflowCancelled",
    "WorkflowDef",
    "WorkflowEngine",
    "WorkflowFailed",
    "WorkflowHandle",
    "WorkflowInfo",
    "WorkflowNotFound",
    "WorkflowParked",
    "WorkflowSessionRunner",
    "WorkflowStatus",
    "WorkflowSummary",
    "WorkflowTerminated",
    "WorkflowUpdate",
    "WrongType",
    "WrongWorkflow",
    "__version__",
    "activity",
    "activity_info",
    "call",
    "failed_undos",
    "fan_out",
    "first_success",
    "gather",
    "info",
    "loop",
    "now",
    "patched",
    "pause",
    "publish",
    "race",
    "random",
    "removed",
    "saga",
    "settle",
    "sleep",
    "sleep_until",
    "spawn",
    "stored_traceback",
    "uuid",
    "workflow",
]
