"""The names under which durable's own classes are stored.

A workflow may catch an error of ours today and be replayed in a year, so the name in the row is a format: it must not
change when a class moves to another module. A class of ours is stored as `durable.` and its public name. Classes of
users are stored under their dotted path, which is theirs to keep.

Stores up to schema version 7 have the dotted paths of that time instead. They are read for as long as there are stores,
so no line of `_FIRST_HOMES` is ever changed. A new class gets a line there, one that moves a line in `_MOVED`.
`tests/formats/test_names.py` pins both.
"""

from __future__ import annotations

from collections.abc import Mapping

from durable.loaded_classes import class_name, loaded_class

# Where each class was defined when it was stored for the first time.
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
    "durable.event_errors": ("EventNotFound", "EventTypeMismatch"),
    "durable.limit_errors": ("HelpersTooDeep", "TooManyChildren", "TooManyWaits"),
    "durable.pause_errors": (
        "PauseAlreadyAnswered", "PauseCancelled", "PauseExpired", "PauseNotFound", "WorkflowParked", "WrongWorkflow",
    ),
    "durable.registration_errors": ("DuplicateActivity",),
    "durable.remote_errors": ("NotSupported", "RemoteError"),
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
# The paths of the classes that have moved since, by the names under which they are stored.
_MOVED: Mapping[str, str] = {}

# From the paths of earlier stores to names, from names to the paths of today, and back.
_EARLIER = {f"{module}.{name}": f"durable.{name}" for module, names in _FIRST_HOMES.items() for name in names}
_PATHS = {name: _MOVED.get(name, path) for path, name in _EARLIER.items()}
_NAMES = {path: name for name, path in _PATHS.items()}


def stored_name(cls: type) -> str:
    """The name under which a class is stored."""
    path = class_name(cls)
    return _NAMES.get(path, path)


def own_class(name: str) -> type | None:
    """The class of ours that is stored under a name, and never one of a user: for names from other processes."""
    return loaded_class(_PATHS[name]) if name in _PATHS else None


def stored_class(name: str) -> type | None:
    """The class that is stored under a name, if it is loaded."""
    name = _EARLIER.get(name, name)
    return loaded_class(_PATHS.get(name, name))
