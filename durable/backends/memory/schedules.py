"""The schedules of a store in memory. Their next times stand in its one line of timers, among those of workflows."""

from __future__ import annotations

from sortedcontainers import SortedSet

from durable.backends.base import Batch, Schedules
from durable.model.schedule import ScheduleRecord


class MemorySchedules:
    """Schedules by key."""

    def __init__(self, timers: SortedSet[tuple[int, int]]) -> None:
        self._timers = timers
        self._rows: dict[int, ScheduleRecord] = {}

    def apply(self, batch: Batch) -> None:
        """Do what a commit says."""
        for key in batch.schedules_dropped:
            self._drop(key)
        for key, schedule in batch.schedules_put.items():
            for other in [one.key for one in self._rows.values() if one.name == schedule.name]:
                self._drop(other)
            self._rows[key] = schedule
            if schedule.wake_at is not None:
                self._timers.add((schedule.wake_at, key))

    def _drop(self, key: int) -> None:
        schedule = self._rows.pop(key, None)
        if schedule is not None and schedule.wake_at is not None:
            self._timers.discard((schedule.wake_at, key))

    def find(self, query: Schedules) -> list[ScheduleRecord]:
        """The schedules that answer a question."""
        found = [
            one
            for one in self._rows.values()
            if query.name in (None, one.name)
            and query.key in (None, one.key)
            and (query.after is None or one.name > query.after)
        ]
        return sorted(found, key=lambda one: one.name)[: query.limit]
