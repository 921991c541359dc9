"""The work of many branches in one body, counted in calls: twice as many branches, twice as many calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import attrs
import pytest

from durable import Durable, Retry, activity, fan_out, gather, pause, race, sleep, workflow
from durable.engine.operations import RecordActivity
from durable.model.error_codec import pack_error
from tests.growth import counted
from tests.growth.counted import Counted, one_step, step

FEW = 100


@activity(name="growth.flaky", retry=Retry(max_attempts=3, first_delay=1, factor=1, jitter=0))
async def flaky(number: int) -> int:
    """Fails until the test lets it succeed."""
    return number


BRANCHES: dict[str, Callable[[int], Any]] = {
    "activities with a limit": lambda count: gather(*(step(number).within(100 + number) for number in range(count))),
    "activities with one limit": lambda count: gather(*(step(number).within(100) for number in range(count))),
    "sleeps": lambda count: gather(*(sleep(100 + number) for number in range(count))),
    "sleeps to one instant": lambda count: gather(*(sleep(100) for _ in range(count))),
    "activities": lambda count: gather(*(step(number) for number in range(count))),
    "activities that fail": lambda count: gather(*(flaky(number) for number in range(count))),
    "race of activities": lambda count: race(*(step(number) for number in range(count))),
    "race of sleeps": lambda count: race(*(sleep(100 + number) for number in range(count))),
    "fan-out": lambda count: fan_out(step, range(count), limit=10),
    "children": lambda count: gather(*(one_step(number) for number in range(count))),
    "pauses": lambda count: gather(
        *(pause(returns=bool, expires_after=100 + number).or_default(False) for number in range(count))
    ),
}


@workflow(name="growth.branches")
def branches(name: str, count: int) -> Durable[None]:
    """Many branches of one kind."""
    yield from BRANCHES[name](count)


@attrs.define
class Calls:
    """Counts the calls of functions, and every step of a generator."""

    count: int = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        self.count += event in ("call", "c_call")


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the workflow with the coordinators of this file."""
    monkeypatch.setattr(counted, "EVERY", [*counted.EVERY, branches])


def fail_all(made: Counted) -> None:
    """Let all activities fail, and begin again when their time has come."""
    error = ValueError("no")
    running, made.running = made.running, []
    for run in running:
        made.coordinator.submit(
            RecordActivity(run.key, run.round, run.position, run.attempt, pack_error(error), error=error)
        )
    made.do()
    made.clock.advance(1)
    made.do()


def calls_of(file: Path, name: str, count: int) -> int:
    """How many calls it takes until this many branches have ended."""
    made, calls = Counted(file), Calls()
    made.open()
    sys.setprofile(calls)
    try:
        made.start([branches(name, count)])
        if name == "activities that fail":
            fail_all(made)
            fail_all(made)
        while made.running or made.coordinator.state.timers.next() is not None:
            made.answer()
            made.clock.advance(1)
            made.do()
    finally:
        sys.setprofile(None)
    assert made.coordinator.state.loaded == {}
    made.close()
    return calls.count


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("name", BRANCHES)
def test_branches_cost_the_same_however_many_there_are(tmp_path: Path, name: str) -> None:
    """Four times as many branches take at most five times as many calls: a little more for sorting."""
    few = calls_of(tmp_path / "few.db", name, FEW)
    many = calls_of(tmp_path / "many.db", name, 4 * FEW)
    assert many < 5 * few
