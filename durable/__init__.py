"""durable: workflows that survive crashes, deploys and months of waiting.

A workflow is a plain generator function. What it does to the world is in activities, whose results are recorded; after
a crash the function runs again with the recorded results and continues where it stopped:

    @activity
    async def charge(order: Order) -> Payment: ...

    @workflow
    def checkout(order: Order) -> Durable[Receipt]:
        payment = yield from charge(order)
        approved = yield from approval.wait()
        return Receipt(payment, approved.by)

    async with WorkflowEngine("orders.db") as engine:
        handle = await engine.start(checkout(order), id="order-42")
        receipt = await handle.result()

The public names are those in `__all__`, and the documented ones of `durable.backends`, `durable.testing` and
`durable.telemetry`. Everything else may move or change at any time.

From here, the code is in rooms, each with an essay at the head of its package. Read them in this order: `model` (values
that all share), `runner` (bodies and replay), `engine` (`operations`, `state`, `decide`, `repair`, `coordinator`,
`host`, `remote`, `api`), `backends` (stores). Imports go in this direction only.

| you want to know | package |
|---|---|
| what workflow code may write, and how it is replayed | `durable.runner` |
| what a service may call | `durable.engine.api` |
| what happens to a call until it is durable | `durable.engine.coordinator`, `durable.engine.decide` |
| how activities run | `durable.engine.host` |
| how something is stored | `durable.backends` |
| why something was refused | `durable.errors` |
"""

from durable.engine.api.engine import WorkflowEngine
from durable.engine.api.handle import WorkflowHandle
from durable.engine.api.refs import WorkflowRef
from durable.engine.api.sync import SyncWorkflowEngine
from durable.engine.api.sync_groups import SyncWorkflowHandle
from durable.engine.api.updates import WorkflowUpdate
from durable.engine.config import EngineConfig
from durable.engine.host.activities import ActivityInfo, activity_info
from durable.engine.operations import Delivered, Queued
from durable.engine.operations.views import (
    Description,
    OwedUndo,
    RecoveryReport,
    ScheduleSummary,
    Waiting,
    WorkflowSummary,
)
from durable.errors import (
    ActivityFailed,
    ActivityTimedOut,
    Cancelled,
    CannotFork,
    CannotRepair,
    CannotRetry,
    ChildDepthExceeded,
    ChildWorkflowCancelled,
    ChildWorkflowFailed,
    CodecError,
    DeadLetterNotFound,
    DuplicateActivity,
    DuplicateWorkflow,
    DurableError,
    EngineClosed,
    EngineForked,
    EngineNotRunning,
    EngineUnreachable,
    EventConflict,
    EventNotFound,
    EventTypeMismatch,
    HelpersTooDeep,
    HistoryDiverged,
    InvalidValue,
    InvariantViolated,
    NonRetryable,
    NotSupported,
    OperationMisused,
    PauseAlreadyAnswered,
    PauseCancelled,
    PauseExpired,
    PauseNotFound,
    PayloadTooLarge,
    PendingEventsFull,
    ProtocolMismatch,
    RegistrationError,
    RemoteError,
    RetryAfter,
    ScheduleAlreadyExists,
    ScheduleBusy,
    ScheduleNotFound,
    StorageError,
    StorageUnavailable,
    StoreFenced,
    StoreInUse,
    StoreTooNew,
    StoreUnusable,
    TimedOut,
    TooManyChildren,
    TooManyWaits,
    UnknownWorkflow,
    WorkflowAlreadyExists,
    WorkflowCancelled,
    WorkflowFailed,
    WorkflowNotFound,
    WorkflowParked,
    WorkflowTerminated,
    WrongType,
    WrongWorkflow,
)
from durable.model.codec import Codec
from durable.model.dead_letters import DeadLetter, DeadLetterReason, PendingEventInfo
from durable.model.error_codec import failed_undos, stored_traceback
from durable.model.records import (
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
from durable.model.retry import Retry
from durable.model.schedule import CatchUp, Overlap
from durable.model.version import VERSION
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
    "EngineNotRunning",
    "EngineUnreachable",
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
    "ProtocolMismatch",
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
    "WorkflowRef",
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
