"""Invariant I23: every tick of a schedule starts a run, waits, is skipped or is missed, as the policies say.

Ticks are computed here by plain arithmetic, without the code under test: schedules of a simulation tick every n
seconds, counted from their creation or from the full minute. Rules like those of `rules`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import attrs

from durable.backends.base import Batch
from durable.model.clock import SECOND, from_datetime
from durable.model.records import WorkflowRecord
from durable.model.schedule import CatchUp, Overlap, ScheduleRecord, run_tag
from simulation.ledger import Ledger
from simulation.violation import Violation

# The most runs of one schedule that one commit may start: twenty due ticks and the queued one.
_RUNS_MAX = 21


def ticks_between(schedule: ScheduleRecord, after: int, until: int) -> set[int]:
    """Every tick later than `after` and not later than `until`."""
    plan = schedule.job.plan
    base, step = schedule.anchor, plan.every or 0
    if plan.cron is not None:
        # "*/5 * * * * *"
        base, step = 0, int(plan.cron.split()[0].removeprefix("*/")) * SECOND
    first = base + ((after - base) // step + 1) * step
    return set(range(first, until + 1, step))


@attrs.frozen
class Step:
    """What one commit does to one schedule: as it was, as it will be, and the runs that it starts."""

    old: ScheduleRecord
    new: ScheduleRecord
    # By tick.
    started: dict[int, WorkflowRecord]
    triggered: list[WorkflowRecord]

    @property
    def decided(self) -> set[int]:
        """The ticks that this commit decides."""
        return ticks_between(self.new, self.old.done_until, self.new.done_until)

    @property
    def missed(self) -> set[int]:
        """The decided ticks that are left out as missed."""
        start, end = self.new.missed_from, self.new.missed_until
        if start is None or end is None or (start, end) == (self.old.missed_from, self.old.missed_until):
            return set()
        return {tick for tick in self.decided if start <= tick < end}

    @property
    def unqueued(self) -> int | None:
        """The tick that is no longer queued and was not started either, or None."""
        is_gone = self.old.queued is not None and self.new.queued != self.old.queued
        return self.old.queued if is_gone and self.old.queued not in self.started else None


def _step(batch: Batch, old: ScheduleRecord, new: ScheduleRecord) -> Step:
    """What a commit does to a schedule; its runs are found by their tag, and their ticks by their ids."""
    started: dict[int, WorkflowRecord] = {}
    triggered: list[WorkflowRecord] = []
    for run in batch.workflows_new.values():
        if run.tags == (run_tag(new.name),):
            tick = run.id.partition("@")[2]
            if tick:
                started[from_datetime("tick", datetime.fromisoformat(tick))] = run
            else:
                triggered.append(run)
    return Step(old, new, started, triggered)


def i23_a_tick_is_decided_once(ledger: Ledger, batch: Batch, now: int) -> None:
    """Each tick starts one run, waits, or is left out for a reason, in the commit that advances its schedule."""
    _check_owners(ledger, batch)
    for key, new in batch.schedules_put.items():
        step = _step(batch, ledger.schedules.get(key, new), new)
        _check_advance(step)
        _check_missed(step, now, round(ledger.grace * SECOND))
        _check_overlap(ledger, batch, step)
        if not step.old.is_paused:
            _check_all_accounted(step)


def _check_owners(ledger: Ledger, batch: Batch) -> None:
    """A run starts only in a commit that advances or deletes its schedule."""
    # A schedule that is deleted in the same commit need not advance.
    deleted = [ledger.schedules[key] for key in batch.schedules_dropped if key in ledger.schedules]
    names = {run_tag(schedule.name) for schedule in (*batch.schedules_put.values(), *deleted)}
    for run in batch.workflows_new.values():
        if run.tags and not names.intersection(run.tags):
            raise Violation("I23", f"{run.id} is started, and its schedule does not advance in the same commit")


def _check_advance(step: Step) -> None:
    """A schedule advances, and starts only runs for ticks that it decides, not before their time."""
    old, new = step.old, step.new
    if new.done_until < old.done_until:
        raise Violation("I23", f"{new.name}: done until {old.done_until}, then until {new.done_until}")
    for tick, run in step.started.items():
        if tick == old.queued:
            # The queued tick was decided before, and the clock may have been set back since.
            continue
        if tick not in step.decided:
            raise Violation("I23", f"{run.id} is started, and this commit does not decide its tick: {old} {new}")
        if run.created_at < tick:
            raise Violation("I23", f"{run.id} is started before its time, at {run.created_at}")
    if len(step.started) > _RUNS_MAX:
        raise Violation("I28", f"{new.name}: {len(step.started)} runs are started in one commit")
    if old.is_paused and step.started:
        raise Violation("I23", f"{new.name} is paused and starts {[*step.started]}")


def _check_missed(step: Step, now: int, grace: int) -> None:
    """Only late ticks are missed, and the policy says how many of them are caught up."""
    job = step.new.job
    # With LAST only the first must be late: one run stands for all ticks that are due.
    judged = {min(step.missed)} if step.missed and job.catch_up is CatchUp.LAST else step.missed
    if any(now - tick <= grace for tick in judged):
        raise Violation("I23", f"{step.new.name}: {step.missed} are left out as missed, and it is {now}")
    if step.missed and job.catch_up is CatchUp.ALL:
        raise Violation("I23", f"{step.new.name}: {step.missed} are left out, and all are to be caught up")
    if step.missed and job.catch_up is CatchUp.LAST and (step.new.missed_until or 0) > step.new.done_until:
        raise Violation("I23", f"{step.new.name}: {step.missed} are left out, and not even the last is caught up")
    late = [
        tick for tick, run in step.started.items() if run.created_at - tick > grace and tick != step.old.queued
    ]  # fmt: skip
    if len(late) > {CatchUp.SKIP: 0, CatchUp.LAST: 1, CatchUp.ALL: len(late)}[job.catch_up]:
        raise Violation("I23", f"{step.new.name}: {late} are too late and are started")


def _check_overlap(ledger: Ledger, batch: Batch, step: Step) -> None:
    """A run begins before the last one has ended only if the policy allows it."""
    new = [*step.started.values(), *step.triggered]
    if step.new.job.overlap is Overlap.ALLOW or not new:
        return
    is_busy = _is_unfinished(ledger, batch, step.old.last_key)
    if len(new) > 1 or is_busy:
        raise Violation("I23", f"{[run.id for run in new]} begin while {step.old.last_id} is unfinished: {is_busy}")


def _is_unfinished(ledger: Ledger, batch: Batch, key: int | None) -> bool:
    if key is None:
        return False
    record = batch.workflows_changed.get(key) or ledger.lives[key].record
    return not record.status.is_terminal


def _check_all_accounted(step: Step) -> None:
    """Ticks that were not started, queued or missed are counted as skipped, and only while a run was unfinished."""
    passed_over = step.decided - step.started.keys() - step.missed - {step.new.queued}
    # A tick may be queued and then dropped by a pause in one commit.
    skipped = step.new.skipped - step.old.skipped - (step.unqueued is not None)
    if len(passed_over) != skipped:
        raise Violation("I23", f"{step.new.name}: {sorted(passed_over)} are passed over, {skipped} are counted: {step}")
    job = step.new.job
    has_run = step.old.last_key is not None or step.new.last_key is not None
    may_skip = job.overlap is Overlap.SKIP or (job.overlap is Overlap.QUEUE and job.catch_up is not CatchUp.ALL)
    if passed_over and not (may_skip and has_run) and not step.new.is_paused:
        raise Violation("I23", f"{step.new.name}: {sorted(passed_over)} are skipped for no reason: {step}")


def i23_a_schedule_has_its_timer(ledger: Ledger, batch: Batch, now: int) -> None:
    """A schedule wakes at its next tick, at once if the run before its queued tick has ended, never while paused."""
    for schedule in _touched(ledger, batch):
        wake_at, last = schedule.wake_at, schedule.last_key
        if schedule.is_paused:
            is_right = wake_at is None
        elif schedule.queued is None:
            is_right = wake_at == schedule.next_at
        elif last in batch.workflows_changed and not _is_unfinished(ledger, batch, last):
            is_right = wake_at is not None and wake_at <= now
        else:
            # A queued tick may wait without a timer. Once the run before it has ended there must be one, even if the
            # clock was set back.
            is_right = wake_at is not None or _is_unfinished(ledger, batch, last)
        if not is_right:
            raise Violation("I23", f"{schedule} wakes at {wake_at}")


def _touched(ledger: Ledger, batch: Batch) -> Iterable[ScheduleRecord]:
    tags = {tag for run in batch.workflows_changed.values() for tag in run.tags}
    schedules = ledger.schedules.items()
    return (row for key, row in schedules if key in batch.schedules_put or run_tag(row.name) in tags)


def check_ticks(ledger: Ledger, now: int) -> None:
    """While the engine has nothing to do, no schedule is due."""
    for schedule in ledger.schedules.values():
        if schedule.wake_at is not None and schedule.wake_at <= now:
            raise Violation("I23", f"{schedule} is due at {now}, and the engine is idle")
