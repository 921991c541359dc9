"""How the pool comes to its workers: effects arrive in a callback of the loop, where no task can be started."""

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
    """Let others run, then answer."""
    await anyio.lowlevel.checkpoint()
    return value


def run(value: int) -> RunActivity:
    """An activity of a workflow of its own."""
    return RunActivity(value, f"w{value}", 0, "0", 1, number, (value,), {})


class SteppedEngine:
    """A pool and what it has reported."""

    def __init__(self, tasks: anyio.abc.TaskGroup, limit: int) -> None:
        self.values: list[int] = []
        self.all_came = anyio.Event()
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
        """Keep an answer."""
        if isinstance(answer, RecordActivity):
            self.values.append(answer.value)
        if len(self.values) == MANY:
            self.all_came.set()


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_activities_begin_outside_any_task(limit: int) -> None:
    """Twenty activities that arrive in callbacks of the loop all run, whatever the limit."""

    async def main() -> list[int]:
        with anyio.fail_after(SOON):
            async with anyio.create_task_group() as tasks:
                stepped = SteppedEngine(tasks, limit)
                stepped.pool.start()
                for value in range(MANY):
                    # They find different numbers of workers at rest, at first none.
                    asyncio.get_running_loop().call_later(value // 5 / 1000, stepped.take, run(value))
                await stepped.all_came.wait()
                await stepped.pool.drain(SOON)
        return stepped.values

    assert sorted(asyncio.run(main())) == list(range(MANY))


def test_activities_that_came_before_the_start() -> None:
    """They begin with it: the coordinator may work before the opening of the engine has come back."""
    errors: list[object] = []

    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context))
        with anyio.fail_after(SOON):
            async with anyio.create_task_group() as tasks:
                stepped = SteppedEngine(tasks, 100)
                for value in range(MANY):
                    loop.call_soon(stepped.take, run(value))
                await anyio.lowlevel.checkpoint()
                stepped.pool.start()
                await stepped.all_came.wait()
                await stepped.pool.drain(SOON)
        return stepped.values

    assert sorted(asyncio.run(main())) == list(range(MANY))
    assert not errors
