"""Invariant I23: what becomes of the ticks of schedules, one by one, as their policies say.

Ticks are counted here by plain arithmetic, without asking the plan: the schedules of a simulation tick every so many
seconds, from when they were created or from the full minute on. Asked like the rules of `rules`.
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

# Most runs of one schedule that one commit starts: ticks that are due, and the one that has waited in line.
_RUNS_MAX = 21


def ticks_between(schedule: ScheduleRecord, after: int, until: int) -> set[int]:
    """Every tick after one instant and not after another."""
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
        """The ticks that are done with by this commit."""
        return ticks_between(self.new, self.old.done_until, self.new.done_until)

    @property
    def missed(self) -> set[int]:
        """Those that are left out as missed."""
        start, end = self.new.missed_from, self.new.missed_until
        if start is None or end is None or (start, end) == (self.old.missed_from, self.old.missed_until):
            return set()
        return {tick for tick in self.decided if start <= tick < end}

    @property
    def unqueued(self) -> int | None:
        """The tick that waits in line no more, and has not been started either."""
        is_gone = self.old.queued is not None and self.new.queued != self.old.queued
        return self.old.queued if is_gone and self.old.queued not in self.started else None


def _step(batch: Batch, old: ScheduleRecord, new: ScheduleRecord) -> Step:
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
    """Each tick starts one run, waits, or is left out for a reason; with the advance of its schedule, in one commit."""
    _check_owners(ledger, batch)
    for key, new in batch.schedules_put.items():
        step = _step(batch, ledger.schedules.get(key, new), new)
        _check_advance(step)
        _check_missed(step, now, round(ledger.grace * SECOND))
        _check_overlap(ledger, batch, step)
        if not step.old.is_paused:
            _check_all_accounted(step)


def _check_owners(ledger: Ledger, batch: Batch) -> None:
    # One that is deleted in the same commit has no next tick any more.
    gone = [ledger.schedules[key] for key in batch.schedules_dropped if key in ledger.schedules]
    names = {run_tag(one.name) for one in (*batch.schedules_put.values(), *gone)}
    for run in batch.workflows_new.values():
        if run.tags and not names.intersection(run.tags):
            raise Violation("I23", f"{run.id} is started, and its schedule does not go on in the same commit")


def _check_advance(step: Step) -> None:
    old, new = step.old, step.new
    if new.done_until < old.done_until:
        raise Violation("I23", f"{new.name}: done until {old.done_until}, then until {new.done_until}")
    for tick, run in step.started.items():
        if tick == old.queued:
            # It has come before; the clock may have been set back since.
            continue
        if tick not in step.decided:
            raise Violation("I23", f"{run.id} is started, and that tick is not decided now: {old} {new}")
        if run.created_at < tick:
            raise Violation("I23", f"{run.id} is started before its time, at {run.created_at}")
    if len(step.started) > _RUNS_MAX:
        raise Violation("I28", f"{new.name}: {len(step.started)} runs are started in one commit")
    if old.is_paused and step.started:
        raise Violation("I23", f"{new.name} is paused and starts {[*step.started]}")


def _check_missed(step: Step, now: int, grace: int) -> None:
    """Missed is only what is late, and how much of it is caught up is what the policy says."""
    job = step.new.job
    # With LAST it is enough that the first of them is: one run stands for all that are due.
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
    """Only where it is allowed does a run begin before the last one has ended."""
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
    """Whatever was neither started, nor queued, nor missed, is counted as skipped, because a run was unfinished."""
    rest = step.decided - step.started.keys() - step.missed - {step.new.queued}
    # A tick may be queued and dropped by a pause in one commit.
    skipped = step.new.skipped - step.old.skipped - (step.unqueued is not None)
    if len(rest) != skipped:
        raise Violation("I23", f"{step.new.name}: {sorted(rest)} are passed over, {skipped} are counted: {step}")
    job = step.new.job
    has_run = step.old.last_key is not None or step.new.last_key is not None
    may_skip = job.overlap is Overlap.SKIP or (job.overlap is Overlap.QUEUE and job.catch_up is not CatchUp.ALL)
    if rest and not (may_skip and has_run) and not step.new.is_paused:
        raise Violation("I23", f"{step.new.name}: {sorted(rest)} are skipped for no reason: {step}")


def i23_a_schedule_has_its_timer(ledger: Ledger, batch: Batch, now: int) -> None:
    """A schedule wakes at its next tick; at once if the run that a tick waits for has ended; never while paused."""
    for schedule in _touched(ledger, batch):
        wake_at, last = schedule.wake_at, schedule.last_key
        if schedule.is_paused:
            is_right = wake_at is None
        elif schedule.queued is None:
            is_right = wake_at == schedule.next_at
        elif last in batch.workflows_changed and not _is_unfinished(ledger, batch, last):
            is_right = wake_at is not None and wake_at <= now
        else:
            # Until its turn comes it may stand in line; afterwards it is awake, also where the clock was set back.
            is_right = wake_at is not None or _is_unfinished(ledger, batch, last)
        if not is_right:
            raise Violation("I23", f"{schedule} wakes at {wake_at}")


def _touched(ledger: Ledger, batch: Batch) -> Iterable[ScheduleRecord]:
    tags = {tag for run in batch.workflows_changed.values() for tag in run.tags}
    return (one for key, one in ledger.schedules.items() if key in batch.schedules_put or run_tag(one.name) in tags)


def check_ticks(ledger: Ledger, now: int) -> None:
    """The engine has nothing to do: so no tick is due."""
    for schedule in ledger.schedules.values():
        if schedule.wake_at is not None and schedule.wake_at <= now:
            raise Violation("I23", f"{schedule} is due at {now}, and nobody decides it")
