"""What operators do with schedules: create, replace, pause, resume, trigger, delete and list."""

from __future__ import annotations

from datetime import timedelta

import pytest

from durable import (
    InvalidValue,
    Overlap,
    PayloadTooLarge,
    ScheduleAlreadyExists,
    ScheduleBusy,
    ScheduleNotFound,
    WorkflowAlreadyExists,
    WorkflowStatus,
)
from durable.backends.base import Schedules
from durable.engine import operations as ops
from durable.engine.config import EngineConfig
from durable.engine.operations import TickSchedule
from durable.testing.clock import NOON
from tests.engine.agenda import row, schedule_of, ticks
from tests.engine.direct import ALL, DirectEngine, call_of, refusal
from tests.engine.flows import EVERY, go, nothing, sleeper, waiter

RESTART = pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
MINUTE = 60

# --- create ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("together", [True, False])
def test_created_twice(together: bool) -> None:
    """Creating the same schedule again changes nothing. A different definition is refused, and the first stays."""
    engine = DirectEngine(*EVERY)
    first, again = engine.two(schedule_of(nothing()), schedule_of(nothing()), together=together)
    assert first == again
    engine.advance(30)
    different = schedule_of(nothing(), cron="* * * * *", overlap=Overlap.ALLOW)
    _, refused = engine.two(schedule_of(nothing(), "t"), different, together=together)
    assert refusal(refused) == (ScheduleAlreadyExists, "s")
    assert row(engine.backend) == first


def test_replaced() -> None:
    """A replaced schedule keeps its past ticks, and continues with its new plan."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(waiter(), overlap=Overlap.QUEUE))
    engine.advance(MINUTE)
    engine.advance(MINUTE)
    before = row(engine.backend)
    assert before.queued is not None
    engine.advance(30)
    after = engine.do(schedule_of(nothing(3), every=45, replace=True))
    assert (after.key, after.last_id, after.created_at) == (before.key, before.last_id, before.created_at)
    assert (after.queued, after.skipped) == (None, 1)
    engine.send(go, 1)
    engine.advance(45)
    assert ticks(engine.backend) == ["12:01", "12:03:15"]
    assert engine.do(schedule_of(nothing(3), every=45, replace=True)) == row(engine.backend)


def test_replaced_while_paused() -> None:
    """A paused schedule stays paused when it is replaced."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing()))
    engine.do(ops.PauseSchedule("s"))
    engine.do(schedule_of(nothing(), every=10, replace=True))
    engine.advance(MINUTE)
    assert ticks(engine.backend) == []
    engine.do(ops.ResumeSchedule("s"))
    engine.advance(10)
    assert ticks(engine.backend) == ["12:01:10"]


def test_refused_before_anything_is_written() -> None:
    """A plan that never ticks and arguments that are too large are refused, and nothing is stored."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_payload_bytes=12))
    never = schedule_of(nothing(), cron="* * */20 * 1L")
    large = schedule_of(nothing(10**12))
    kinds = [refusal(reply)[0] for reply in engine.batch(never, large)]
    assert kinds == [InvalidValue, PayloadTooLarge]
    assert engine.backend.find(Schedules(limit=ALL)) == []
    assert engine.state.batch.is_empty()


# --- pause, resume, trigger, delete, list ---------------------------------------------------------------------------


@RESTART
def test_paused(clean: bool) -> None:
    """A paused schedule starts nothing, and after it is resumed it continues with the next tick."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing()))
    engine.batch(ops.PauseSchedule("s"), ops.PauseSchedule("s"))
    assert engine.state.timers.next() is None
    for _ in range(3):
        engine.advance(MINUTE)
    engine.restart(*EVERY, clean=clean)
    engine.batch(ops.ResumeSchedule("s"), ops.ResumeSchedule("s"))
    engine.settle()
    assert ticks(engine.backend) == []
    engine.advance(MINUTE)
    assert ticks(engine.backend) == ["12:04"]


def test_pause_between_a_timer_and_its_tick() -> None:
    """A pause that comes between a timer and its tick wins."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing()))
    engine.clock.advance(MINUTE)
    engine.batch(ops.PauseSchedule("s"), TickSchedule(row(engine.backend).key))
    assert ticks(engine.backend) == []


def test_paused_with_a_queued_tick() -> None:
    """A pause drops the queued tick."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(waiter(), overlap=Overlap.QUEUE))
    engine.advance(MINUTE)
    engine.advance(MINUTE)
    engine.do(ops.PauseSchedule("s"))
    engine.send(go, 1)
    engine.settle()
    assert (ticks(engine.backend), row(engine.backend).skipped) == (["12:01"], 1)


@pytest.mark.parametrize("how", ["resumed", "replaced"])
def test_continues_after_the_clock_was_set_back(how: str) -> None:
    """After the clock was set back, a tick that had its run does not come again."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing()))
    engine.advance(2 * MINUTE - 1)
    before = row(engine.backend)
    engine.clock.set(NOON)
    if how == "resumed":
        engine.batch(ops.PauseSchedule("s"), ops.ResumeSchedule("s"))
    else:
        engine.do(schedule_of(nothing(), overlap=Overlap.ALLOW, replace=True))
    assert (row(engine.backend).done_until, row(engine.backend).next_at) == (before.done_until, before.next_at)
    for _ in range(3):
        engine.advance(MINUTE)
    assert ticks(engine.backend) == ["12:01", "12:02", "12:03"]


def test_triggered() -> None:
    """A run can be triggered by hand, even while paused. The same id finds it again, and it counts as the last run."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(waiter()))
    engine.do(ops.PauseSchedule("s"))
    run = engine.do(ops.TriggerSchedule("s", "now"))
    assert engine.do(ops.TriggerSchedule("s", "now")).key == run.key
    with pytest.raises(ScheduleBusy) as caught:
        engine.do(ops.TriggerSchedule("s", "again"))
    assert caught.value.workflow_id == "now"
    engine.do(ops.ResumeSchedule("s"))
    engine.advance(MINUTE)
    assert (ticks(engine.backend), row(engine.backend).skipped) == ([""], 1)
    engine.send(go, 4)
    assert engine.result("now") == 4
    engine.do(ops.TriggerSchedule("s", "again"))
    assert row(engine.backend).last_id == "again"


def test_triggered_at_once() -> None:
    """If runs may overlap, they can be triggered at any time, but not under the id of another workflow."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(waiter(), overlap=Overlap.ALLOW))
    engine.do(call_of(nothing(), "taken"))
    engine.batch(ops.TriggerSchedule("s", "a"), ops.TriggerSchedule("s", "b"))
    assert row(engine.backend).last_id == "b"
    with pytest.raises(WorkflowAlreadyExists):
        engine.do(ops.TriggerSchedule("s", "taken"))


def test_deleted() -> None:
    """A deleted schedule starts nothing, its runs continue, and its name is free."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(waiter()))
    engine.advance(MINUTE)
    engine.do(ops.DeleteSchedule("s"))
    engine.advance(5 * MINUTE)
    assert ticks(engine.backend) == ["12:01"]
    assert engine.status("s@2031-05-17T12:01:00+00:00") is WorkflowStatus.SUSPENDED
    for op in (ops.DeleteSchedule("s"), ops.PauseSchedule("s"), ops.ResumeSchedule("s"), ops.TriggerSchedule("s", "x")):
        assert refusal(engine.batch(op)[0]) == (ScheduleNotFound, "s")
    engine.do(schedule_of(nothing(), every=5))
    assert row(engine.backend).skipped == 0


def test_created_and_deleted_in_one_batch() -> None:
    """A batch can delete what it created, and does not find what it deleted."""
    engine = DirectEngine(*EVERY)
    engine.batch(schedule_of(nothing()), ops.DeleteSchedule("s"))
    assert engine.backend.find(Schedules(limit=ALL)) == []
    engine.do(schedule_of(nothing()))
    replies = engine.batch(ops.DeleteSchedule("s"), ops.PauseSchedule("s"), TickSchedule(row(engine.backend).key))
    assert refusal(replies[1]) == (ScheduleNotFound, "s")


def test_listed() -> None:
    """Schedules are listed by name, page by page."""
    engine = DirectEngine(*EVERY)
    for name in "cab":
        engine.do(schedule_of(nothing(), name))
    assert [schedule.name for schedule in engine.do(ops.ListSchedules(None, 2))] == ["a", "b"]
    assert [schedule.name for schedule in engine.do(ops.ListSchedules("b", 2))] == ["c"]


def test_record_is_whole_after_every_change() -> None:
    """The times of a schedule always fit: past ticks lie before the next one, and a paused schedule never wakes."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(sleeper(100), overlap=Overlap.QUEUE))
    for step in range(40):
        engine.advance(timedelta(seconds=17).total_seconds())
        if step % 7 == 3:
            engine.do(ops.PauseSchedule("s"))
        if step % 7 == 5:
            engine.do(ops.ResumeSchedule("s"))
        record = row(engine.backend)
        assert record.done_until <= engine.clock.now()
        assert record.next_at is not None
        assert record.next_at > record.done_until
        assert record.wake_at == (None if record.is_paused else record.next_at)
