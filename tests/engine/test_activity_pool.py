"""How activities get from callbacks of the loop, where no task can be started, to the workers of the pool."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from durable import EngineConfig, activity
from durable.engine.host.activities import ActivityPool
from durable.engine.host.bridge import LoopBridge
from durable.engine.operations import BeginAttempt, RecordActivity, RunActivity
from durable.model.codec import Codec

SOON = 10.0
MANY = 20


@activity(name="pool.number")
async def number(value: int) -> int:
    """Yield to the loop once, then return the value."""
    await anyio.lowlevel.checkpoint()
    return value


def run(value: int) -> RunActivity:
    """An activity of a separate workflow."""
    return RunActivity(value, f"w{value}", 0, "0", 1, number, (value,), {})


class PoolUnderTest:
    """A pool and the results that it reported."""

    def __init__(self, tasks: anyio.abc.TaskGroup, limit: int) -> None:
        self.values: list[int] = []
        self.all_reported = anyio.Event()
        self.pool = ActivityPool(
            tasks,
            self.report,
            Codec(),
            EngineConfig(max_running_activities=limit),
            waiter=LoopBridge().waiter,
            is_cancelled=bool,
        )

    def take(self, effect: RunActivity) -> None:
        """Hand one effect to the pool."""
        self.pool.apply([effect])

    def report(self, answer: RecordActivity | BeginAttempt) -> None:
        """Keep a result."""
        if isinstance(answer, RecordActivity):
            self.values.append(answer.value)
        if len(self.values) == MANY:
            self.all_reported.set()


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_activities_begin_outside_any_task(limit: int) -> None:
    """Activities that arrive in callbacks of the loop all run, whatever the limit."""

    async def main() -> list[int]:
        with anyio.fail_after(SOON):
            async with anyio.create_task_group() as tasks:
                under_test = PoolUnderTest(tasks, limit)
                under_test.pool.start()
                for value in range(MANY):
                    # The callbacks find different numbers of idle workers, at first none.
                    asyncio.get_running_loop().call_later(value // 5 / 1000, under_test.take, run(value))
                await under_test.all_reported.wait()
                await under_test.pool.drain(SOON)
        return under_test.values

    assert sorted(asyncio.run(main())) == list(range(MANY))


def test_activities_that_came_before_the_start() -> None:
    """Activities that arrive before the pool starts run once it does: the coordinator may be faster than `open`."""
    errors: list[object] = []

    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context))
        with anyio.fail_after(SOON):
            async with anyio.create_task_group() as tasks:
                under_test = PoolUnderTest(tasks, 100)
                for value in range(MANY):
                    loop.call_soon(under_test.take, run(value))
                await anyio.lowlevel.checkpoint()
                under_test.pool.start()
                await under_test.all_reported.wait()
                await under_test.pool.drain(SOON)
        return under_test.values

    assert sorted(asyncio.run(main())) == list(range(MANY))
    assert not errors
