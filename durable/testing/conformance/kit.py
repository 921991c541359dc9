"""What the conformance checks share: a store that is opened, written and reopened, and records to put into it.

Knows the `Backend` protocol only: no backend, and not pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

from durable.backends.base import Backend, Batch, Opened
from durable.model.records import (
    EntryKind,
    EntryStatus,
    EventWait,
    HistoryEntry,
    PendingEvent,
    WorkflowRecord,
    WorkflowStatus,
)

BackendFactory = Callable[[], Backend]
Check = Callable[[BackendFactory], None]
T = TypeVar("T")
# More rows than any check stores, for queries where paging is not the claim.
ALL = 1000


class Store:
    """The store under test. Each open is a new incarnation, so batch numbers start at 1 again."""

    def __init__(self, make: BackendFactory) -> None:
        self._make = make
        self._incarnations = 0
        self.backend = make()
        self.opened = self._open()

    def _open(self) -> Opened:
        self._incarnations += 1
        self._number = 0
        return self.backend.open(f"incarnation-{self._incarnations}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.backend.close()

    def commit(self, **changes: Any) -> None:
        """Commit a batch with the next number."""
        self.backend.commit(Batch(number=self._number + 1, **changes))
        self._number += 1

    def reopen(self) -> Opened:
        """Close the store and open it through a new handle, as a restarted process would."""
        self.backend.close()
        self.backend = self._make()
        self.opened = self._open()
        return self.opened

    def save(self, **changes: Any) -> None:
        """Commit and reopen, so that what is read afterwards was really stored."""
        self.commit(**changes)
        self.reopen()


def same(actual: object, expected: object) -> None:
    """Raises `AssertionError` unless both are equal."""
    if actual != expected:
        raise AssertionError(f"the store returned\n  {actual!r}\ninstead of\n  {expected!r}")


def refuses(error: type[BaseException], action: Callable[[], object]) -> None:
    """Raises `AssertionError` unless the action raises this error."""
    try:
        action()
    except error:
        return
    raise AssertionError(f"the store accepted what must raise {error.__name__}")


def workflow(key: int, **fields: Any) -> WorkflowRecord:
    """A workflow with plausible defaults for the fields that do not matter."""
    defaults: dict[str, Any] = {
        "id": f"workflow-{key}",
        "name": "order",
        "status": WorkflowStatus.RUNNING,
        "input": "[]",
        "created_at": 1000 + key,
        "start_at": 1000 + key,
    }
    return WorkflowRecord(key=key, **(defaults | fields))


def entry(seq: int, outcome: str = "null", position: str | None = None) -> HistoryEntry:
    """A history entry; usually only its order matters."""
    place = str(seq) if position is None else position
    return HistoryEntry(seq, place, EntryKind.ACTIVITY, "charge", EntryStatus.OK, outcome, 2000 + seq)


def wait(key: int, serial: int, position: str = "0", **fields: Any) -> EventWait:
    """A wait for the event "paid"."""
    defaults: dict[str, Any] = {"name": "paid", "since": 3000}
    return EventWait(**(defaults | fields), workflow_key=key, position=position, serial=serial)


def event(serial: int, **fields: Any) -> PendingEvent:
    """An event "paid"."""
    defaults: dict[str, Any] = {"name": "paid", "payload": str(serial), "sent_at": 4000 + serial}
    return PendingEvent(**(defaults | fields), serial=serial)


def by_key(*records: WorkflowRecord) -> dict[int, WorkflowRecord]:
    """Workflows by key, as a batch holds them."""
    return {record.key: record for record in records}


def by_place(*waits: EventWait) -> dict[tuple[int, str], EventWait]:
    """Waits by workflow and position, as a batch holds them."""
    return {(wait.workflow_key, wait.position): wait for wait in waits}


def by_serial(*events: PendingEvent) -> dict[int, PendingEvent]:
    """Events by serial, as a batch holds them."""
    return {event.serial: event for event in events}


def keys(records: Iterable[WorkflowRecord]) -> list[int]:
    """The keys of workflows."""
    return [record.key for record in records]


def serials(rows: Iterable[PendingEvent] | Iterable[EventWait]) -> list[int]:
    """The serials of events or waits."""
    return [row.serial for row in rows]
