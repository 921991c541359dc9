"""Bodies that are slow or do not return are named in the log."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from durable import Durable, EngineConfig, WorkflowEngine, sleep, workflow
from durable.engine.host.watchdog import Watchdog
from durable.testing.clock import ManualClock
from durable.testing.conformance.kit import workflow as record_of
from tests.scenarios.kit import SOON


@pytest.mark.anyio
async def test_slow_body_is_logged_with_its_name(caplog: pytest.LogCaptureFixture) -> None:
    """A body that takes longer than `slow_body_after` for one step is named with its id; a quick one is not."""
    clock = ManualClock()

    @workflow(name="slow-thinker")
    def body(seconds: float) -> Durable[None]:
        yield from sleep(0)
        clock.advance(seconds)

    async with WorkflowEngine("memory://", clock=clock, config=EngineConfig(slow_body_after=0.5)) as engine:
        for id, seconds in (("quick", 0.4), ("slow", 0.6)):
            await (await engine.start(body(seconds), id=id)).result(timeout=SOON)
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "workflow slow (slow-thinker) took 0.60 s" in line


def test_stuck_body_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """A body that has not returned for `stuck_body_after` is named while it is stuck, and only once."""
    clock = ManualClock()
    watchdog = Watchdog(clock, EngineConfig(stuck_body_after=5))
    watchdog.check()
    watchdog.enter(record_of(1, id="stuck"), cast(Any, None))
    clock.advance(4)
    watchdog.check()
    assert not caplog.records
    clock.advance(1)
    watchdog.check()
    watchdog.check()
    (line,) = [record.getMessage() for record in caplog.records]
    assert "workflow stuck" in line
    watchdog.leave()
    watchdog.check()
    assert len(caplog.records) == 2
