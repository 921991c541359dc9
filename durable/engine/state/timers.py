"""The next timers, and the schedules, whose timers are among them. Part of the coordinator's state.

`TimerWindow` is a sorted window in memory over the store's index. It holds every timer up to its horizon, except those
that came due and were taken out. Timers beyond the horizon are in the store only; when the window runs empty the
coordinator refills it from there. A million sleeping workflows therefore cost rows, not memory.

`Timetable` finds, stores and drops schedules, keeps their timers, and wakes a schedule whose queued tick waits for a
run to end. It knows nothing about ticks: `decide.schedules` decides what they do.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from sortedcontainers import SortedList

from durable.backends.base import Backend, Batch, Schedules
from durable.errors import ScheduleNotFound
from durable.model.clock import EARLIEST
from durable.model.records import WorkflowRecord
from durable.model.schedule import ScheduleRecord, schedule_of
from durable.model.timers import OF_SCHEDULE, OF_WORKFLOW, ScheduleKey, Timer

# Above every key.
_LAST = 1 << 62


class TimerWindow:
    """The timers of workflows and schedules that fire next."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._timers: SortedList[Timer] = SortedList()
        # Later timers may be in the store only; None if the window holds all of them.
        self._horizon: Timer | None = (EARLIEST, OF_WORKFLOW, 0)
        # Whether there is no timer at all. A plain flag, because other threads read it and must not touch the list.
        self.is_empty = False

    def register_timer(self, timer: Timer) -> None:
        """Wake a workflow or a schedule at an instant. Idempotent.

        A timer that came due was taken out of the window, so register it again if it is still needed.
        """
        if (self._horizon is not None and _is_later(timer, self._horizon)) or timer in self._timers:
            return
        self._timers.add(timer)
        self.is_empty = False
        if len(self._timers) > 2 * self._size:
            # Not before twice the size, so that the window is cut once per `size` new timers.
            del self._timers[self._size :]
            self._horizon = self._timers[-1]

    def cancel_timer(self, timer: Timer) -> None:
        """Remove a timer whose deadline has moved or is gone. Does nothing if it came due and was taken out."""
        self._timers.discard(timer)
        self.is_empty = not self._timers and self._horizon is None

    def cancel_all_timers(self) -> None:
        """Remove every timer because the engine stops. The deadlines stay in the rows for the next engine."""
        self._timers.clear()
        self._horizon = None
        self.is_empty = True

    def refill_after(self) -> Timer | None:
        """The timer after which to refill from the store; None if no refill is needed.

        A refill starts at the horizon, not at the first timer. The timer of a suspect that waits for its trial is due
        but not handled; from the start it would come back in every refill and keep the timers behind it from firing.
        """
        return None if self._timers else self._horizon

    def refill(self, stored: Sequence[Timer]) -> None:
        """Add the next `size` timers of the store. Fewer mean that the store holds no more."""
        self._timers.update(stored)
        self._horizon = stored[-1] if len(stored) >= self._size else None
        self.is_empty = not stored

    def next(self) -> int | None:
        """When the next timer of the window fires."""
        return self._timers[0][0] if self._timers else None

    def pop_due(self, now: int, limit: int) -> list[Timer]:
        """Take at most `limit` due timers out of the window, the earliest first."""
        if not self._timers or self._timers[0][0] > now:
            return []
        count = min(limit, self._timers.bisect_right((now, OF_WORKFLOW, _LAST)))
        due = self._timers[:count]
        del self._timers[:count]
        self.is_empty = not self._timers and self._horizon is None
        return due


def _is_later(timer: tuple[int, str, int], other: tuple[int, str, int]) -> bool:
    """Whether a timer comes after another. With the wider type: type checkers do not compare unions of tuples."""
    return timer > other


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
