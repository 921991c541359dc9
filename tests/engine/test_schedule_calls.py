"""What operators do with schedules: create and replace them, pause, resume, trigger, delete, list."""

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
from tests.engine.desk import ALL, Desk, call_of, refusal
from tests.engine.flows import EVERY, go, nothing, sleeper, waiter

RESTART = pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
MINUTE = 60

# --- create ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("together", [True, False])
def test_created_twice(together: bool) -> None:
    """The same definition again changes nothing; another one is refused, and the first stays as it was."""
    desk = Desk(*EVERY)
    first, again = desk.two(schedule_of(nothing()), schedule_of(nothing()), together=together)
    assert first == again
    desk.advance(30)
    other = schedule_of(nothing(), cron="* * * * *", overlap=Overlap.ALLOW)
    _, refused = desk.two(schedule_of(nothing(), "t"), other, together=together)
    assert refusal(refused) == (ScheduleAlreadyExists, "s")
    assert row(desk.backend) == first


def test_replaced() -> None:
    """A replaced schedule keeps what it has done, and goes on by its new plan from now on."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(waiter(), overlap=Overlap.QUEUE))
    desk.advance(MINUTE)
    desk.advance(MINUTE)
    before = row(desk.backend)
    assert before.queued is not None
    desk.advance(30)
    after = desk.do(schedule_of(nothing(3), every=45, replace=True))
    assert (after.key, after.last_id, after.created_at) == (before.key, before.last_id, before.created_at)
    assert (after.queued, after.skipped) == (None, 1)
    desk.send(go, 1)
    desk.advance(45)
    assert ticks(desk.backend) == ["12:01", "12:03:15"]
    assert desk.do(schedule_of(nothing(3), every=45, replace=True)) == row(desk.backend)


def test_replaced_while_paused() -> None:
    """A schedule that is paused stays paused with its new definition."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(nothing()))
    desk.do(ops.PauseSchedule("s"))
    desk.do(schedule_of(nothing(), every=10, replace=True))
    desk.advance(MINUTE)
    assert ticks(desk.backend) == []
    desk.do(ops.ResumeSchedule("s"))
    desk.advance(10)
    assert ticks(desk.backend) == ["12:01:10"]


def test_refused_before_anything_is_written() -> None:
    """A plan that never ticks and arguments that are too large are refused, and nothing is stored."""
    desk = Desk(*EVERY, config=EngineConfig(max_payload_bytes=12))
    never = schedule_of(nothing(), cron="* * */20 * 1L")
    large = schedule_of(nothing(10**12))
    kinds = [refusal(reply)[0] for reply in desk.batch(never, large)]
    assert kinds == [InvalidValue, PayloadTooLarge]
    assert desk.backend.find(Schedules(limit=ALL)) == []
    assert desk.state.batch.is_empty()


# --- pause, resume, trigger, delete, list ---------------------------------------------------------------------------


@RESTART
def test_paused(clean: bool) -> None:
    """A paused schedule starts nothing, also not later; it goes on with the next tick when it is resumed."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(nothing()))
    desk.batch(ops.PauseSchedule("s"), ops.PauseSchedule("s"))
    assert desk.state.timers.next() is None
    for _ in range(3):
        desk.advance(MINUTE)
    desk.restart(*EVERY, clean=clean)
    desk.batch(ops.ResumeSchedule("s"), ops.ResumeSchedule("s"))
    desk.settle()
    assert ticks(desk.backend) == []
    desk.advance(MINUTE)
    assert ticks(desk.backend) == ["12:04"]


def test_tick_in_hand_while_it_is_paused() -> None:
    """A pause that comes between a timer and its tick wins."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(nothing()))
    desk.clock.advance(MINUTE)
    desk.batch(ops.PauseSchedule("s"), TickSchedule(row(desk.backend).key))
    assert ticks(desk.backend) == []


def test_paused_with_a_tick_in_line() -> None:
    """A tick that waits in line is left out by a pause."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(waiter(), overlap=Overlap.QUEUE))
    desk.advance(MINUTE)
    desk.advance(MINUTE)
    desk.do(ops.PauseSchedule("s"))
    desk.send(go, 1)
    desk.settle()
    assert (ticks(desk.backend), row(desk.backend).skipped) == (["12:01"], 1)


@pytest.mark.parametrize("how", ["resumed", "replaced"])
def test_goes_on_after_the_clock_was_set_back(how: str) -> None:
    """A tick that has its run does not come again, and is not even looked at."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(nothing()))
    desk.advance(2 * MINUTE - 1)
    before = row(desk.backend)
    desk.clock.set(NOON)
    if how == "resumed":
        desk.batch(ops.PauseSchedule("s"), ops.ResumeSchedule("s"))
    else:
        desk.do(schedule_of(nothing(), overlap=Overlap.ALLOW, replace=True))
    assert (row(desk.backend).done_until, row(desk.backend).next_at) == (before.done_until, before.next_at)
    for _ in range(3):
        desk.advance(MINUTE)
    assert ticks(desk.backend) == ["12:01", "12:02", "12:03"]


def test_triggered() -> None:
    """A run can be started by hand, also while paused; the same id again finds it, and it counts as the last run."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(waiter()))
    desk.do(ops.PauseSchedule("s"))
    run = desk.do(ops.TriggerSchedule("s", "now"))
    assert desk.do(ops.TriggerSchedule("s", "now")).key == run.key
    with pytest.raises(ScheduleBusy) as caught:
        desk.do(ops.TriggerSchedule("s", "again"))
    assert caught.value.workflow_id == "now"
    desk.do(ops.ResumeSchedule("s"))
    desk.advance(MINUTE)
    assert (ticks(desk.backend), row(desk.backend).skipped) == ([""], 1)
    desk.send(go, 4)
    assert desk.result("now") == 4
    desk.do(ops.TriggerSchedule("s", "again"))
    assert row(desk.backend).last_id == "again"


def test_triggered_at_once() -> None:
    """Where runs may overlap they may be triggered at any time, but not under the id of another workflow."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(waiter(), overlap=Overlap.ALLOW))
    desk.do(call_of(nothing(), "taken"))
    desk.batch(ops.TriggerSchedule("s", "a"), ops.TriggerSchedule("s", "b"))
    assert row(desk.backend).last_id == "b"
    with pytest.raises(WorkflowAlreadyExists):
        desk.do(ops.TriggerSchedule("s", "taken"))


def test_deleted() -> None:
    """A schedule that is gone starts nothing, its runs go on, and its name is free."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(waiter()))
    desk.advance(MINUTE)
    desk.do(ops.DeleteSchedule("s"))
    desk.advance(5 * MINUTE)
    assert ticks(desk.backend) == ["12:01"]
    assert desk.status("s@2031-05-17T12:01:00+00:00") is WorkflowStatus.SUSPENDED
    for op in (ops.DeleteSchedule("s"), ops.PauseSchedule("s"), ops.ResumeSchedule("s"), ops.TriggerSchedule("s", "x")):
        assert refusal(desk.batch(op)[0]) == (ScheduleNotFound, "s")
    desk.do(schedule_of(nothing(), every=5))
    assert row(desk.backend).skipped == 0


def test_created_and_deleted_in_one_batch() -> None:
    """What a batch has created it can delete, and what it has deleted it does not find."""
    desk = Desk(*EVERY)
    desk.batch(schedule_of(nothing()), ops.DeleteSchedule("s"))
    assert desk.backend.find(Schedules(limit=ALL)) == []
    desk.do(schedule_of(nothing()))
    replies = desk.batch(ops.DeleteSchedule("s"), ops.PauseSchedule("s"), TickSchedule(row(desk.backend).key))
    assert refusal(replies[1]) == (ScheduleNotFound, "s")


def test_listed() -> None:
    """Schedules are listed by name, page by page."""
    desk = Desk(*EVERY)
    for name in "cab":
        desk.do(schedule_of(nothing(), name))
    assert [one.name for one in desk.do(ops.ListSchedules(None, 2))] == ["a", "b"]
    assert [one.name for one in desk.do(ops.ListSchedules("b", 2))] == ["c"]


def test_record_is_whole_after_every_change() -> None:
    """Times of a schedule fit together: what is done lies before what is next, and a paused one never wakes."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(sleeper(100), overlap=Overlap.QUEUE))
    for step in range(40):
        desk.advance(timedelta(seconds=17).total_seconds())
        if step % 7 == 3:
            desk.do(ops.PauseSchedule("s"))
        if step % 7 == 5:
            desk.do(ops.ResumeSchedule("s"))
        found = row(desk.backend)
        assert found.done_until <= desk.clock.now()
        assert found.next_at is not None
        assert found.next_at > found.done_until
        assert found.wake_at == (None if found.is_paused else found.next_at)
