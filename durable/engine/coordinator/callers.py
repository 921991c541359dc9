"""Callers whose answer comes later: when a workflow ends, or changes.

Nothing here is stored. A caller whose engine dies asks the next one again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

from durable.engine.decide.queries import sight_of
from durable.engine.decide.turn import Turn
from durable.engine.operations import AwaitChange, AwaitEnd, Operation
from durable.engine.state.state import changed_workflows
from durable.errors import DurableError, StorageError
from durable.model.records import WorkflowRecord


class Watcher(Protocol):
    """The part of an `Envelope` that matters here: a caller's operation, and its answer."""

    operation: Operation[Any]
    reply: Any
    error: BaseException | None
    is_abandoned: bool


W = TypeVar("W", bound=Watcher)


class Watchers(Generic[W]):
    """The callers that wait for the end of a workflow, by its key."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[W]] = {}

    def add(self, key: int, watcher: W) -> None:
        """Add a caller, and drop those of this workflow that have given up."""
        waiting = [earlier for earlier in self._waiting.get(key, ()) if not earlier.is_abandoned]
        self._waiting[key] = [*waiting, watcher]

    def pop(self, record: WorkflowRecord) -> list[W]:
        """Take the callers to answer now that this workflow has ended or is parked.

        If it is parked, those with `wait_if_parked` continue to wait.
        """
        waiting = self._waiting.pop(record.key, [])
        if record.status.is_terminal or not waiting:
            return waiting
        patient = [each for each in waiting if isinstance(each.operation, AwaitEnd) and each.operation.wait_if_parked]
        if patient:
            self._waiting[record.key] = patient
        return [watcher for watcher in waiting if watcher not in patient]

    def forget_abandoned(self) -> None:
        """Drop callers that have given up. Their workflows may run for months, and nothing else would remove them."""
        waiting = {key: [each for each in watchers if not each.is_abandoned] for key, watchers in self._waiting.items()}
        self._waiting = {key: watchers for key, watchers in waiting.items() if watchers}

    def __len__(self) -> int:
        """How many workflows have a waiting caller."""
        return len(self._waiting)

    def __iter__(self) -> Iterator[W]:
        """Every waiting caller."""
        return (watcher for watchers in self._waiting.values() for watcher in watchers)


class Observers(Watchers[W]):
    """The callers that wait for a workflow to change, by its key."""

    def __init__(self) -> None:
        super().__init__()
        # The workflows with a caller that asked in this batch.
        self._fresh: set[int] = set()

    def add(self, key: int, watcher: W) -> None:
        """Add a caller. It is checked in this batch even if its workflow does not change."""
        super().add(key, watcher)
        self._fresh.add(key)

    def look(self, turn: Turn) -> list[tuple[int, W]]:
        """Before a commit: the callers that this batch gives something new to see, with their answers filled in.

        They are answered only after the commit (`take`), so no watcher sees what may still be lost.
        """
        if not self._waiting:
            return []
        keys = self._fresh | changed_workflows(turn.state, self._waiting.keys())
        self._fresh.clear()
        return [(key, each) for key in sorted(keys) for each in self._waiting[key] if _has_news(turn, each)]

    def take(self, answered: list[tuple[int, W]]) -> list[W]:
        """After the commit: remove the callers that `look` found, to be answered."""
        for key, watcher in answered:
            self._waiting[key].remove(watcher)
            if not self._waiting[key]:
                del self._waiting[key]
        return [watcher for _, watcher in answered]


def _has_news(turn: Turn, watcher: Watcher) -> bool:
    """Whether there is something that a watcher has not seen. An end always counts."""
    assert isinstance(watcher.operation, AwaitChange)
    try:
        watcher.reply = seen = sight_of(turn, watcher.operation.id)
    except StorageError:
        raise
    except DurableError as error:
        watcher.error = error
        return True
    return seen != watcher.operation.seen or seen.status.is_terminal
