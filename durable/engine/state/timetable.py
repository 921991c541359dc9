"""Schedules, over the store and the open batch. Part of the coordinator's state.

Finds, stores and drops schedules, keeps their timers, and wakes a schedule whose queued tick waits for a run to end.
Knows nothing about ticks: `decide.schedules` decides what they do.
"""

from __future__ import annotations

import attrs

from durable.backends.base import Backend, Batch, Schedules
from durable.engine.state.timers import TimerWindow
from durable.errors import ScheduleNotFound
from durable.model.records import WorkflowRecord
from durable.model.schedule import ScheduleRecord, schedule_of
from durable.model.timers import OF_SCHEDULE, ScheduleKey


class Timetable:
    """Schedules by name and by key. Their timers are in one window with those of workflows."""

    def __init__(self, backend: Backend, timers: TimerWindow) -> None:
        # The open batch; the state replaces it after each commit.
        self.batch = Batch()
        self._backend = backend
        self._timers = timers

    def find(self, name: str) -> ScheduleRecord | None:
        """The schedule of this name, if there is one."""
        fresh = next((schedule for schedule in self.batch.schedules_put.values() if schedule.name == name), None)
        return fresh or self._stored(Schedules(name=name))

    def get(self, name: str) -> ScheduleRecord:
        """The schedule of this name. Raises `ScheduleNotFound`."""
        schedule = self.find(name)
        if schedule is None:
            raise ScheduleNotFound(name)
        return schedule

    def by_key(self, key: ScheduleKey) -> ScheduleRecord | None:
        """The schedule with this key, if it is still there."""
        return self.batch.schedules_put.get(key) or self._stored(Schedules(key=key))

    def _stored(self, query: Schedules) -> ScheduleRecord | None:
        stored = self._backend.find(query)
        return stored[0] if stored and stored[0].key not in self.batch.schedules_dropped else None

    def put(self, schedule: ScheduleRecord, before: ScheduleRecord | None = None) -> None:
        """Store a new or changed schedule and register its timer. `before` is the schedule as it was.

        The timer is registered even if the instant is the same: a timer that came due was taken out of the window.
        """
        self.batch.schedules_put[schedule.key] = schedule
        if before is not None and before.wake_at is not None:
            self._timers.cancel_timer((before.wake_at, OF_SCHEDULE, schedule.key))
        if schedule.wake_at is not None:
            self._timers.register_timer((schedule.wake_at, OF_SCHEDULE, schedule.key))

    def drop(self, schedule: ScheduleRecord) -> None:
        """Delete a schedule and its timer."""
        self.batch.schedules_put.pop(schedule.key, None)
        self.batch.schedules_dropped.add(schedule.key)
        if schedule.wake_at is not None:
            self._timers.cancel_timer((schedule.wake_at, OF_SCHEDULE, schedule.key))

    def run_ended(self, record: WorkflowRecord, now: int) -> None:
        """A workflow has ended. If a tick is queued behind this run, wake its schedule in the same commit."""
        name = schedule_of(record.tags)
        schedule = None if name is None else self.find(name)
        if schedule is not None and schedule.queued is not None and schedule.last_key == record.key:
            self.put(attrs.evolve(schedule, wake_at=now), schedule)
