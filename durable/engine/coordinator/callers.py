"""Callers whose answer comes later: when a workflow ends, or changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

from durable.engine.decide.turn import Turn
from durable.engine.decide.watch import sight_of
from durable.engine.operations import AwaitChange, AwaitEnd, Operation
from durable.engine.state.state import changed_workflows
from durable.errors import DurableError, StorageError
from durable.model.records import WorkflowRecord


class Watcher(Protocol):
    """A caller and the way back to it, as far as is needed here."""

    operation: Operation[Any]
    reply: Any
    error: BaseException | None
    is_abandoned: bool


W = TypeVar("W", bound=Watcher)


class Watchers(Generic[W]):
    """Who waits for which workflow, by its key."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[W]] = {}

    def add(self, key: int, watcher: W) -> None:
        """One more who waits."""
        others = [other for other in self._waiting.get(key, ()) if not other.is_abandoned]
        self._waiting[key] = [*others, watcher]

    def pop(self, record: WorkflowRecord) -> list[W]:
        """Those who wait for this workflow, which has ended or is parked; they wait no more.

        Who waits for the end of a parked one as well is not among them.
        """
        waiting = self._waiting.pop(record.key, [])
        if record.status.is_terminal or not waiting:
            return waiting
        patient = [one for one in waiting if isinstance(one.operation, AwaitEnd) and one.operation.wait_if_parked]
        if patient:
            self._waiting[record.key] = patient
        return [one for one in waiting if one not in patient]

    def forget_abandoned(self) -> None:
        """A workflow may go on for months after the last caller has stopped waiting for it."""
        left = {key: [one for one in some if not one.is_abandoned] for key, some in self._waiting.items()}
        self._waiting = {key: some for key, some in left.items() if some}

    def __len__(self) -> int:
        """How many workflows somebody waits for."""
        return len(self._waiting)

    def __iter__(self) -> Iterator[W]:
        """Everybody who waits."""
        return (watcher for some in self._waiting.values() for watcher in some)


class Observers(Watchers[W]):
    """Who waits for which workflow to change."""

    def __init__(self) -> None:
        super().__init__()
        # Those who have asked in this batch.
        self._fresh: set[int] = set()

    def add(self, key: int, watcher: W) -> None:
        """One more who waits; it is looked at even if this batch changes nothing."""
        super().add(key, watcher)
        self._fresh.add(key)

    def look(self, turn: Turn) -> list[tuple[int, W]]:
        """Before a commit: those who have something new to see once it has happened, each with its answer."""
        if not self._waiting:
            return []
        keys = self._fresh | changed_workflows(turn.state, self._waiting.keys())
        return [(key, one) for key in sorted(keys) for one in self._waiting[key] if _has_news(turn, one)]

    def take(self, told: list[tuple[int, W]]) -> list[W]:
        """After the commit: these have their answer, and wait no more."""
        self._fresh.clear()
        for key, watcher in told:
            self._waiting[key].remove(watcher)
            if not self._waiting[key]:
                del self._waiting[key]
        return [watcher for _, watcher in told]


def _has_news(turn: Turn, watcher: Watcher) -> bool:
    """Whether there is something that a watcher has not seen. An end is always told."""
    assert isinstance(watcher.operation, AwaitChange)
    try:
        watcher.reply = seen = sight_of(turn, watcher.operation.id)
    except StorageError:
        raise
    except DurableError as error:
        watcher.error = error
        return True
    return seen != watcher.operation.seen or seen.status.is_terminal
