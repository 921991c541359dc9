"""The watchdog logs bodies that are slow or stuck. Here it checks when the test tells it to."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from durable import Durable, EngineConfig, sleep, workflow
from durable.engine.host.watchdog import Watchdog
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, nothing, worker

CONFIG = EngineConfig(slow_body_after=1, stuck_body_after=10)


def fields(line: logging.LogRecord) -> tuple[Any, Any]:
    """The workflow's id and name in the fields of a line."""
    return getattr(line, "workflow_id", None), getattr(line, "workflow_name", None)


def test_slow_step_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A step that takes longer than the limit is logged with the workflow's id and name, and a quick one is not."""
    engine = DirectEngine(*EVERY)
    engine.state.watch = Watchdog(engine.clock, CONFIG)

    @workflow(name="watchdog.slow")
    def slow(seconds: float) -> Durable[None]:
        engine.clock.advance(seconds)
        yield from sleep(0)

    engine.start(slow(1), "quick")
    engine.start(slow(3), "slow")
    assert "workflow slow (watchdog.slow) took 3.00 s" in caplog.text
    assert "workflow quick" not in caplog.text
    assert [fields(line) for line in caplog.records] == [("slow", "watchdog.slow")]


def test_stuck_step_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """A body that does not come back is logged once while it is stuck, and not before its time."""
    engine = DirectEngine(*EVERY)
    watchdog = engine.state.watch = Watchdog(engine.clock, CONFIG)

    @workflow(name="watchdog.stuck")
    def stuck() -> Durable[None]:
        engine.clock.advance(9)
        watchdog.check()
        assert caplog.text == ""
        engine.clock.advance(1)
        watchdog.check()
        watchdog.check()
        yield from sleep(0)

    engine.start(stuck())
    named = [line for line in caplog.records if "has not come back for 10 s" in line.getMessage()]
    assert [fields(line) for line in named] == [("w", "watchdog.stuck")]
    assert named[0].getMessage().startswith("workflow w (watchdog.stuck)")


def test_idle_watchdog_names_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is logged while no body runs, however long that is."""
    engine = DirectEngine(*EVERY)
    watchdog = engine.state.watch = Watchdog(engine.clock, CONFIG)
    engine.start(nothing())
    engine.start(worker(), "other")
    engine.clock.advance(1000)
    watchdog.check()
    assert caplog.text == ""
