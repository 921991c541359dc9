"""A tick and another operation at the same instant: the end of the last run, a pause, a deletion, a trigger."""

from __future__ import annotations

from typing import Any

import pytest

from durable import CatchUp, Overlap, ScheduleBusy, ScheduleNotFound
from durable.engine import operations as ops
from durable.engine.operations import Operation, TickSchedule
from tests.engine.agenda import row, schedule_of, ticks
from tests.engine.direct import DirectEngine, event_of, refusal
from tests.engine.flows import EVERY, go, nothing, waiter
from tests.races.kit import TOGETHER

MINUTE = 60
FIRST = pytest.mark.parametrize("first", [True, False], ids=["tick first", "tick second"])


def race(engine: DirectEngine, other: Operation[Any], *, first: bool, together: bool) -> Any:
    """Decide the tick that is due and another operation; return the other's reply."""
    tick = TickSchedule(row(engine.backend).key)
    replies = engine.two(*(tick, other) if first else (other, tick), together=together)
    engine.settle()
    return replies[1 if first else 0]


def busy_desk(overlap: Overlap, catch_up: CatchUp = CatchUp.SKIP) -> DirectEngine:
    """A schedule whose first run is unfinished when the second tick is due."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(waiter(), overlap=overlap, catch_up=catch_up))
    engine.advance(MINUTE)
    engine.clock.advance(MINUTE)
    return engine


@FIRST
@TOGETHER
@pytest.mark.parametrize("catch_up", CatchUp)
@pytest.mark.parametrize("overlap", Overlap)
def test_tick_against_the_end_of_the_last_run(overlap: Overlap, catch_up: CatchUp, first: bool, together: bool) -> None:
    """In either order the tick starts its run, or is skipped because the last run is unfinished at that moment."""
    engine = busy_desk(overlap, catch_up)
    race(engine, event_of(go, 1, to="s@2031-05-17T12:01:00+00:00"), first=first, together=together)
    is_skipped = overlap is Overlap.SKIP and first
    assert ticks(engine.backend) == (["12:01"] if is_skipped else ["12:01", "12:02"])
    assert row(engine.backend).skipped == int(is_skipped)
    assert row(engine.backend).queued is None


@FIRST
@TOGETHER
def test_tick_against_a_pause(first: bool, together: bool) -> None:
    """A tick that is decided before the pause starts its run; the one at the pause and later ones do not."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing()))
    engine.clock.advance(MINUTE)
    race(engine, ops.PauseSchedule("s"), first=first, together=together)
    engine.advance(5 * MINUTE)
    assert ticks(engine.backend) == (["12:01"] if first else [])


@FIRST
@TOGETHER
def test_tick_against_a_deletion(first: bool, together: bool) -> None:
    """The same for a deletion; a run that has begun continues."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing()))
    engine.clock.advance(MINUTE)
    race(engine, ops.DeleteSchedule("s"), first=first, together=together)
    engine.advance(5 * MINUTE)
    assert ticks(engine.backend) == (["12:01"] if first else [])
    assert refusal(engine.batch(ops.PauseSchedule("s"))[0]) == (ScheduleNotFound, "s")


@FIRST
@TOGETHER
@pytest.mark.parametrize("overlap", Overlap)
def test_tick_against_a_trigger(overlap: Overlap, first: bool, together: bool) -> None:
    """If runs must not overlap, the first of the two starts its run; the other is refused, skipped or queued."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(waiter(), overlap=overlap))
    engine.clock.advance(MINUTE)
    answer = race(engine, ops.TriggerSchedule("s", "now"), first=first, together=together)
    is_refused = first and overlap is not Overlap.ALLOW
    assert isinstance(answer, ScheduleBusy) == is_refused
    has_tick = first or overlap is Overlap.ALLOW
    assert sorted(ticks(engine.backend)) == [""] * (not is_refused) + ["12:01"] * has_tick
    engine.send(go, 1)
    engine.settle()
    assert ("12:01" in ticks(engine.backend)) == (has_tick or overlap is Overlap.QUEUE)


@TOGETHER
def test_created_against_created(together: bool) -> None:
    """Two services that create the same schedule at the same moment create one."""
    engine = DirectEngine(*EVERY)
    engine.two(schedule_of(nothing()), schedule_of(nothing(), replace=True), together=together)
    engine.advance(MINUTE)
    assert ticks(engine.backend) == ["12:01"]
