"""What a store keeps about schedules: every field, by name and by key, and their place among the timers.

Schedules have keys of their own, which count down. One ordered list of timers holds the ticks of schedules and the
deadlines of workflows, so the engine needs a single window over both.
"""

from __future__ import annotations

from typing import Any

from durable.backends.base import Schedules, Timers
from durable.model.clock import SECOND
from durable.model.schedule import CatchUp, Job, Overlap, Plan, ScheduleRecord
from durable.model.timers import OF_SCHEDULE, OF_WORKFLOW, ScheduleKey, Timer
from durable.testing.conformance.kit import ALL, BackendFactory, Check, Store, by_key, same, workflow


def _schedule(key: int, name: str, **fields: Any) -> ScheduleRecord:
    job = Job(plan=Plan(every=SECOND), workflow="order", input="{}")
    defaults: dict[str, Any] = {"job": job, "created_at": 1, "anchor": 1, "done_until": 1}
    return ScheduleRecord(key=ScheduleKey(key), name=name, **(defaults | fields))


def _by_key(*schedules: ScheduleRecord) -> dict[ScheduleKey, ScheduleRecord]:
    return {schedule.key: schedule for schedule in schedules}


def _tick(at: int, key: int) -> Timer:
    return (at, OF_SCHEDULE, ScheduleKey(key))


def _wake(at: int, key: int) -> Timer:
    return (at, OF_WORKFLOW, key)


def _names(store: Store, query: Schedules) -> list[str]:
    return [schedule.name for schedule in store.backend.find(query)]


def check_schedule_round_trip(make: BackendFactory) -> None:
    """A schedule comes back with every field, under each plan and each policy."""
    full = _schedule(
        -5,
        "nightly ☃",
        job=Job(
            plan=Plan(cron="30 2 * * MON-FRI", timezone="Europe/Berlin"),
            workflow="répôrt",
            version=3,
            input='{"☃": 1}',
            overlap=Overlap.QUEUE,
            catch_up=CatchUp.LAST,
        ),
        created_at=2,
        anchor=3,
        is_paused=True,
        done_until=4,
        next_at=5,
        wake_at=6,
        queued=7,
        skipped=8,
        last_tick=9,
        last_key=10,
        last_id="nightly ☃@1970",
        missed_from=11,
        missed_until=12,
    )
    plans = (Plan(cron="@daily"), Plan(every=SECOND), Plan(every=90 * SECOND + 1))
    jobs = [
        Job(plan=plan, workflow="w", input="{}", overlap=overlap, catch_up=catch_up)
        for plan, overlap, catch_up in zip(plans, Overlap, CatchUp, strict=True)
    ]
    with_each_plan = [_schedule(-20 - n, f"other {n}", job=job) for n, job in enumerate(jobs)]
    with Store(make) as store:
        store.save(schedules_put=_by_key(full, *with_each_plan))
        same(store.backend.find(Schedules(limit=ALL)), [full, *with_each_plan])


def check_schedules_are_found(make: BackendFactory) -> None:
    """A schedule is found by name or key. All of them come by name, page by page."""
    with Store(make) as store:
        store.save(schedules_put=_by_key(*(_schedule(-n, name) for n, name in enumerate("dbca", 1))))
        same(_names(store, Schedules(limit=ALL)), ["a", "b", "c", "d"])
        same(_names(store, Schedules(limit=2)), ["a", "b"])
        same(_names(store, Schedules(after="b", limit=1)), ["c"])
        same(_names(store, Schedules(after="d", limit=ALL)), [])
        same(_names(store, Schedules(name="b")), ["b"])
        same(_names(store, Schedules(name="B")), [])
        same(_names(store, Schedules(key=ScheduleKey(-1))), ["d"])
        same(_names(store, Schedules(key=ScheduleKey(-9))), [])


def check_schedules_are_put_and_dropped(make: BackendFactory) -> None:
    """A put replaces the schedule with the same key or name; a drop leaves the others."""
    with Store(make) as store:
        store.save(schedules_put=_by_key(_schedule(-1, "a"), _schedule(-2, "b"), _schedule(-3, "c")))
        changed, again = _schedule(-1, "a", skipped=4), _schedule(-9, "b", skipped=5, wake_at=7)
        store.save(schedules_put=_by_key(changed, again), schedules_dropped={ScheduleKey(-3), ScheduleKey(-77)})
        same(store.backend.find(Schedules(limit=ALL)), [changed, again])
        same(store.backend.find(Schedules(key=ScheduleKey(-2))), [])
        store.save(schedules_put=_by_key(_schedule(-10, "b", wake_at=8)), schedules_dropped={ScheduleKey(-9)})
        same(store.backend.find(Timers(limit=ALL)), [_tick(8, -10)])


def check_schedules_wake_among_workflows(make: BackendFactory) -> None:
    """`Timers` has the next ticks among the deadlines of workflows, in one order, also page by page."""
    with Store(make) as store:
        store.save(
            workflows_new=by_key(workflow(1, wake_at=50), workflow(2, wake_at=70), workflow(3)),
            schedules_put=_by_key(
                _schedule(-4, "a", wake_at=70),
                _schedule(-5, "b", wake_at=60),
                _schedule(-6, "c"),
                _schedule(-7, "d", wake_at=70),
            ),
        )
        timers = [_wake(50, 1), _tick(60, -5), _tick(70, -7), _tick(70, -4), _wake(70, 2)]
        same(sorted(timers), timers)
        same(store.backend.find(Timers(limit=ALL)), timers)
        for n, timer in enumerate(timers):
            same(store.backend.find(Timers(after=timer, limit=ALL)), timers[n + 1 :])
            same(store.backend.find(Timers(after=timer, limit=1)), timers[n + 1 : n + 2])
        changed = _by_key(_schedule(-4, "a", wake_at=10), _schedule(-5, "b"))
        store.save(schedules_put=changed, schedules_dropped={ScheduleKey(-7)})
        same(store.backend.find(Timers(limit=ALL)), [_tick(10, -4), _wake(50, 1), _wake(70, 2)])


CHECKS: tuple[Check, ...] = (
    check_schedule_round_trip,
    check_schedules_are_found,
    check_schedules_are_put_and_dropped,
    check_schedules_wake_among_workflows,
)
