"""A shutdown says what it waits for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest
import trio.testing

from durable import EngineConfig, activity
from durable.engine.host.activities import ActivityPool
from durable.engine.host.bridge import LoopBridge
from durable.engine.operations import RunActivity
from durable.model.codec import Codec

pytestmark = pytest.mark.anyio
SOON = 10.0


@activity(name="drain.endless")
async def endless() -> None:
    """Never ends by itself."""
    await anyio.sleep_forever()


def run(number: int) -> RunActivity:
    """An activity of a separate workflow."""
    return RunActivity(number, f"order-{number}", 0, "0", 1, endless, (), {})


async def drain(count: int, seconds: float, meanwhile: Callable[[ActivityPool], Any] | None = None) -> None:
    """Drain a pool in which this many activities run."""
    async with anyio.create_task_group() as tasks:
        pool = ActivityPool(
            tasks, lambda answer: None, Codec(), EngineConfig(), waiter=LoopBridge().waiter, is_cancelled=bool
        )
        pool.start()
        pool.apply([run(number) for number in range(1, count + 1)])
        while len(pool._running) < count:
            await anyio.lowlevel.checkpoint()
        if meanwhile is not None:
            tasks.start_soon(meanwhile, pool)
        await pool.drain(seconds)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The lines that were logged at INFO."""
    caplog.set_level(logging.INFO, "durable")
    return lambda: [f"{entry.levelname} {entry.name} {entry.getMessage()}" for entry in caplog.records]


async def test_drain_says_at_once_what_it_waits_for(
    lines: Callable[[], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the running activities before any time has passed: a few in the text, all workflows in a field."""

    async def hurry(pool: ActivityPool) -> None:
        while not lines():
            await anyio.lowlevel.checkpoint()
        pool.hurry()

    with anyio.fail_after(SOON):
        await drain(5, 3600, hurry)
    assert lines() == [
        "INFO durable shutting down: waiting up to 3600 s for 5 activities: drain.endless of workflow order-1, "
        "drain.endless of workflow order-2, drain.endless of workflow order-3 and 2 more"
    ]
    assert caplog.records[0].workflow_ids == [f"order-{number}" for number in range(1, 6)]  # type: ignore[attr-defined]


def test_drain_says_again_every_five_seconds(lines: Callable[[], list[str]]) -> None:
    """Every five seconds a line says how long the drain may still take. Trio's clock jumps when every task waits."""
    trio.run(drain, 1, 12.0, clock=trio.testing.MockClock(autojump_threshold=0))
    assert [line.partition("waiting ")[2] for line in lines()] == [
        f"up to {left} s for 1 activity: drain.endless of workflow order-1" for left in (12, 7, 2)
    ]


async def test_drain_that_waits_for_nobody_says_nothing(lines: Callable[[], list[str]]) -> None:
    """Nothing is logged if nothing runs or the drain has no time."""
    await drain(0, 3600)
    await drain(1, 0)
    assert lines() == []
