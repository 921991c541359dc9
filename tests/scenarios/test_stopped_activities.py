"""Activities that are stopped: their successors, their parked workflows, and two thousand of them at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from durable import (
    Codec,
    Durable,
    EngineConfig,
    Event,
    Retry,
    WorkflowEngine,
    WorkflowFailed,
    WorkflowStatus,
    activity,
    gather,
    workflow,
)
from durable.engine.host import activities
from durable.engine.host.activities import ActivityPool
from durable.engine.host.bridge import LoopBridge
from durable.engine.operations import BeginAttempt, RecordActivity, RunActivity, SendEvent, StopActivity
from tests.scenarios.kit import SOON

pytestmark = pytest.mark.anyio


class Opaque:
    """A type that cannot be stored."""


class SlowToStop:
    """An activity whose first attempt stops only when the test allows it."""

    def __init__(self) -> None:
        self.runs = 0
        self.begun = [anyio.Event(), anyio.Event()]
        self.stopping, self.may_stop, self.may_end = anyio.Event(), anyio.Event(), anyio.Event()

    async def run(self) -> int:
        """Wait to be cancelled or released."""
        self.runs += 1
        self.begun[self.runs - 1].set()
        if self.runs == 1:
            try:
                await anyio.sleep_forever()
            finally:
                self.stopping.set()
                with anyio.CancelScope(shield=True):
                    await self.may_stop.wait()
        await self.may_end.wait()
        return self.runs


async def quiet(engine: WorkflowEngine) -> None:
    """Wait until no activity runs or is queued."""
    pool = engine._core.check_open().pool
    with anyio.fail_after(SOON):
        while pool._running or pool._waiting:
            await anyio.lowlevel.checkpoint()


async def test_activity_that_is_slow_to_stop_may_have_a_successor() -> None:
    """The end of a stopped activity neither stops its next run nor takes that run's answer."""
    slow = SlowToStop()

    @activity
    async def work() -> int:
        return await slow.run()

    def run(attempt: int) -> RunActivity:
        return RunActivity(1, "w", 0, "0", attempt, work, (), {})

    messages: list[RecordActivity | BeginAttempt] = []
    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            pool = ActivityPool(
                tasks, messages.append, Codec(), EngineConfig(), waiter=LoopBridge().waiter, is_cancelled=bool
            )
            pool.start()
            pool.apply([run(1)])
            await slow.begun[0].wait()
            pool.apply([StopActivity(1, 0, "0")])
            await slow.stopping.wait()
            pool.apply([run(2)])
            await slow.begun[1].wait()
            slow.may_stop.set()
            await anyio.lowlevel.checkpoint()
            slow.may_end.set()
            await pool.drain(SOON)
    assert [(message.attempt, message.value) for message in messages if isinstance(message, RecordActivity)] == [(2, 2)]


async def test_parked_workflow_goes_on_while_its_activity_stops() -> None:
    """A workflow that is recovered before its old activity has stopped does not end the engine."""
    slow = SlowToStop()
    slow.may_end.set()

    @activity
    async def work() -> int:
        return await slow.run()

    @workflow(name="stopped.parked")
    def body() -> Durable[None]:
        yield from gather(work(), Event[Opaque]("stopped.opaque").wait())

    with anyio.fail_after(SOON):
        async with WorkflowEngine("memory://") as engine:
            handle = await engine.start(body(), id="a")
            await slow.begun[0].wait()
            await engine._core.ask(SendEvent(name="stopped.opaque", payload="1", to="a"))
            assert await handle.status() is WorkflowStatus.PARKED
            await slow.stopping.wait()
            await engine.recover()
            slow.may_stop.set()
            await engine.query_status("x")
            await quiet(engine)
            assert slow.runs == 1
            assert await handle.status() is WorkflowStatus.PARKED


async def test_great_gather_that_fails_is_stopped_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a gather of 2,000 activities fails, the queue is not rebuilt for each one that is stopped."""
    queues: list[deque[Any]] = []

    def count(items: Iterable[Any] = ()) -> deque[Any]:
        queues.append(deque(items))
        return queues[-1]

    @activity(retry=Retry.never())
    async def work(value: int) -> None:
        if value == 0:
            raise ValueError("the first one fails")
        await anyio.sleep_forever()

    @workflow(name="stopped.great-gather")
    def body() -> Durable[None]:
        yield from gather(*(work(value) for value in range(2000)))

    monkeypatch.setattr(activities, "deque", count)
    async with WorkflowEngine("memory://", config=EngineConfig(max_running_activities=10)) as engine:
        with pytest.raises(WorkflowFailed):
            await (await engine.start(body())).result(timeout=SOON)
        await quiet(engine)
    assert len(queues) < 20
