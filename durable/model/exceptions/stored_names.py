"""The names under which durable's own classes are stored.

A workflow may catch an error of durable today and be replayed in a year. So the name in the row is a format: it must
not change when a class moves to another module. A class of durable is stored as `durable.` and its public name. A class
of a user is stored under its dotted path, which the user must keep.

Stores up to schema version 7 contain the dotted paths of that time instead. They must remain readable, so an entry in
`_FIRST_HOMES` never changes. Add a new class to both tables. When a class moves, change `_HOMES` only.
`tests/formats/test_names.py` pins both.
"""

from __future__ import annotations

from collections.abc import Mapping

from durable.model.exceptions.classes import class_name, loaded_class

# The module that defined each class when it was first stored.
_FIRST_HOMES: Mapping[str, tuple[str, ...]] = {
    "durable.errors": (
        "ActivityFailed", "ActivityTimedOut", "Cancelled", "ChildDepthExceeded", "ChildWorkflowCancelled",
        "ChildWorkflowFailed", "CodecError", "DeadLetterNotFound", "DuplicateWorkflow", "DurableError", "EngineClosed",
        "EngineForked", "EventConflict", "HistoryDiverged", "InvalidValue", "InvariantViolated", "NonRetryable",
        "OperationMisused", "PayloadTooLarge", "PendingEventsFull", "RegistrationError", "RetryAfter", "StorageError",
        "StorageUnavailable", "StoreFenced", "StoreInUse", "StoreTooNew", "StoreUnusable", "TimedOut",
        "UnknownWorkflow", "WorkflowAlreadyExists", "WorkflowCancelled", "WorkflowFailed", "WorkflowNotFound",
        "WorkflowTerminated", "WrongType",
    ),
    "durable.event_errors": ("EventNotFound", "EventTypeMismatch", "UnknownEvent"),
    "durable.limit_errors": ("HelpersTooDeep", "TooManyChildren", "TooManyWaits"),
    "durable.pause_errors": (
        "PauseAlreadyAnswered", "PauseCancelled", "PauseExpired", "PauseNotFound", "WorkflowParked", "WrongWorkflow",
    ),
    "durable.registration_errors": ("DuplicateActivity",),
    "durable.remote_errors": (
        "EngineNotRunning", "EngineUnreachable", "NotSupported", "ProtocolMismatch", "RemoteError",
    ),
    "durable.repair_errors": ("CannotFork", "CannotRepair", "CannotRetry"),
    "durable.runner.combinators": ("AllFailed",),
    "durable.schedule_errors": ("ScheduleAlreadyExists", "ScheduleBusy", "ScheduleNotFound"),
    "durable.letters": ("DeadLetterReason",),
    "durable.records": (
        "DeadLetterPolicy", "DeliveryMode", "EntryKind", "EntryStatus", "FailedUndo", "OnParentClose", "ParkReason",
    ),
    "durable.schedule": ("CatchUp", "Overlap"),
    "durable.statuses": ("WorkflowStatus",),
}  # fmt: skip
# The module that defines each class today.
_HOMES: Mapping[str, tuple[str, ...]] = {
    "durable.errors.activities": ("ActivityFailed", "ActivityTimedOut", "NonRetryable", "RetryAfter"),
    "durable.errors.base": ("DurableError", "InvariantViolated"),
    "durable.errors.bodies": ("Cancelled", "HistoryDiverged", "OperationMisused", "TimedOut"),
    "durable.errors.children": ("ChildDepthExceeded", "ChildWorkflowCancelled", "ChildWorkflowFailed"),
    "durable.errors.engine": ("EngineClosed", "EngineForked"),
    "durable.errors.events": (
        "DeadLetterNotFound", "EventConflict", "EventNotFound", "EventTypeMismatch", "PendingEventsFull",
        "UnknownEvent",
    ),
    "durable.errors.limits": ("HelpersTooDeep", "TooManyChildren", "TooManyWaits"),
    "durable.errors.pauses": ("PauseAlreadyAnswered", "PauseCancelled", "PauseExpired", "PauseNotFound"),
    "durable.errors.registration": (
        "DuplicateActivity", "DuplicateWorkflow", "RegistrationError", "UnknownWorkflow",
    ),
    "durable.errors.remote": (
        "EngineNotRunning", "EngineUnreachable", "NotSupported", "ProtocolMismatch", "RemoteError",
    ),
    "durable.errors.repairs": ("CannotFork", "CannotRepair", "CannotRetry"),
    "durable.errors.schedules": ("ScheduleAlreadyExists", "ScheduleBusy", "ScheduleNotFound"),
    "durable.errors.storage": (
        "StorageError", "StorageUnavailable", "StoreFenced", "StoreInUse", "StoreTooNew", "StoreUnusable",
    ),
    "durable.errors.values": ("CodecError", "InvalidValue", "PayloadTooLarge", "WrongType"),
    "durable.errors.workflows": (
        "WorkflowAlreadyExists", "WorkflowCancelled", "WorkflowFailed", "WorkflowNotFound", "WorkflowParked",
        "WorkflowTerminated", "WrongWorkflow",
    ),
    "durable.model.dead_letters": ("DeadLetterReason",),
    "durable.model.records": (
        "DeadLetterPolicy", "DeliveryMode", "EntryKind", "EntryStatus", "FailedUndo", "OnParentClose",
        "ParkReason",
    ),
    "durable.model.schedule": ("CatchUp", "Overlap"),
    "durable.model.statuses": ("WorkflowStatus",),
    "durable.runner.combinators": ("AllFailed",),
}  # fmt: skip

# From the paths in old stores to stored names; from stored names to today's paths, and back.
_EARLIER = {f"{module}.{name}": f"durable.{name}" for module, names in _FIRST_HOMES.items() for name in names}
_PATHS = {f"durable.{name}": f"{module}.{name}" for module, names in _HOMES.items() for name in names}
_NAMES = {path: name for name, path in _PATHS.items()}


def stored_name(cls: type) -> str:
    """The name under which a class is stored."""
    path = class_name(cls)
    return _NAMES.get(path, path)


def own_class(name: str) -> type | None:
    """The class of durable with this stored name; never a class of a user. For names from other processes."""
    return loaded_class(_PATHS[name]) if name in _PATHS else None


def stored_class(name: str) -> type | None:
    """The class with this stored name, of durable or of a user; None if it is not loaded."""
    name = _EARLIER.get(name, name)
    return loaded_class(_PATHS.get(name, name))
