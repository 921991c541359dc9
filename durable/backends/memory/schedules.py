"""The schedules of a store in memory. Their timers are in the store's one index, with those of the workflows."""

from __future__ import annotations

from sortedcontainers import SortedSet

from durable.backends.base import Batch, Schedules
from durable.model.schedule import ScheduleRecord
from durable.model.timers import OF_SCHEDULE, ScheduleKey, Timer


class MemorySchedules:
    """Schedules by key. A name belongs to one schedule: storing another with the same name replaces the old row."""

    def __init__(self, timers: SortedSet[Timer]) -> None:
        self._timers = timers
        self._rows: dict[ScheduleKey, ScheduleRecord] = {}

    def apply(self, batch: Batch) -> None:
        """Apply the part of a commit that is about schedules."""
        for key in batch.schedules_dropped:
            self._drop(key)
        for key, schedule in batch.schedules_put.items():
            for previous in [row.key for row in self._rows.values() if row.name == schedule.name]:
                self._drop(previous)
            self._rows[key] = schedule
            if schedule.wake_at is not None:
                self._timers.add((schedule.wake_at, OF_SCHEDULE, key))

    def _drop(self, key: ScheduleKey) -> None:
        """Remove a schedule and its timer; nothing if it is not stored."""
        schedule = self._rows.pop(key, None)
        if schedule is not None and schedule.wake_at is not None:
            self._timers.discard((schedule.wake_at, OF_SCHEDULE, key))

    def find(self, query: Schedules) -> list[ScheduleRecord]:
        """The schedules that match a query, by name."""
        matching = [
            row
            for row in self._rows.values()
            if query.name in (None, row.name)
            and query.key in (None, row.key)
            and (query.after is None or row.name > query.after)
        ]
        return sorted(matching, key=lambda row: row.name)[: query.limit]
