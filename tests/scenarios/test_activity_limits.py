"""Activities: how many run at once, and what happens to those whose result is no longer needed."""

from __future__ import annotations

import contextlib
import math
import threading

import anyio
import anyio.from_thread
import pytest
from anyio import wait_all_tasks_blocked

from durable import (
    ActivityTimedOut,
    Durable,
    EngineConfig,
    EntryKind,
    EntryStatus,
    Retry,
    WorkflowCancelled,
    WorkflowEngine,
    activity,
    call,
    gather,
    race,
    workflow,
)
from tests.scenarios.kit import SOON, Store

pytestmark = pytest.mark.anyio


class Crowd:
    """Counts the activities inside."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0
        self.lock = threading.Lock()

    def enter(self) -> None:
        """One more."""
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def leave(self) -> None:
        """One less."""
        with self.lock:
            self.now -= 1


async def test_cancelling_a_workflow_cancels_its_running_activity(store: Store) -> None:
    """A running async activity is cancelled through its cancel scope, and nothing of it is recorded."""
    started, stopped = anyio.Event(), anyio.Event()

    @activity
    async def endless() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    @workflow(name="endless")
    def body() -> Durable[None]:
        yield from endless()

    async with WorkflowEngine(store) as engine:
        handle = await engine.start(body(), id="a")
        await started.wait()
        assert await engine.cancel("a", reason="enough")
        with anyio.fail_after(SOON):
            await stopped.wait()
        with pytest.raises(WorkflowCancelled, match="enough"):
            await handle.result(timeout=SOON)
        assert [entry.kind for entry in await engine.runs.history("a")] == [EntryKind.CANCEL]


async def test_plain_activity_is_abandoned_and_its_result_dropped(store: Store) -> None:
    """A thread cannot be cancelled: the workflow ends without it, and its late result changes nothing."""
    started, gate = anyio.Event(), threading.Event()

    @activity
    def stubborn() -> int:
        anyio.from_thread.run_sync(started.set)
        gate.wait()
        return 1

    @workflow(name="stubborn")
    def body() -> Durable[int]:
        return (yield from stubborn())

    async with WorkflowEngine(store) as engine:
        try:
            handle = await engine.start(body(), id="a")
            await started.wait()
            await engine.cancel("a")
            with pytest.raises(WorkflowCancelled):
                await handle.result(timeout=SOON)
        finally:
            gate.set()
        assert await engine.query_result("a") is None
        assert [entry.kind for entry in await engine.runs.history("a")] == [EntryKind.CANCEL]


async def test_loser_of_a_race_is_cancelled(store: Store) -> None:
    """When a race is won the activity that lost is cancelled and only the winner is recorded."""
    started, stopped = anyio.Event(), anyio.Event()

    async def slow() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    async def quick() -> str:
        await started.wait()
        return "quick"

    @workflow(name="race")
    def body() -> Durable[str]:
        won = yield from race(call(slow), quick=call(quick))
        return f"{won.key} {won.value}"

    async with WorkflowEngine(store) as engine:
        handle = await engine.start(body(), id="a")
        assert await handle.result(timeout=SOON) == "quick quick"
        with anyio.fail_after(SOON):
            await stopped.wait()
        assert [entry.name for entry in await engine.runs.history("a")] == ["quick"]


async def test_only_so_many_activities_run_at_once() -> None:
    """Activities beyond `max_running_activities` wait their turn, and all of them run in the end."""
    crowd, gate, full = Crowd(), anyio.Event(), anyio.Event()

    @activity
    async def enter(number: int) -> int:
        crowd.enter()
        if crowd.now == 2:
            full.set()
        await gate.wait()
        crowd.leave()
        return number

    @workflow(name="crowd")
    def body() -> Durable[list[int]]:
        return list((yield from gather(*(enter(number) for number in range(7)))))

    async with WorkflowEngine("memory://", config=EngineConfig(max_running_activities=2)) as engine:
        handle = await engine.start(body())
        await full.wait()
        await wait_all_tasks_blocked()
        assert crowd.now == 2
        gate.set()
        assert await handle.result(timeout=SOON) == list(range(7))
    assert crowd.most == 2


async def test_only_so_many_threads_run_at_once() -> None:
    """Plain activities beyond `max_threads` wait for a thread, and all of them run in the end."""
    crowd, gate, full = Crowd(), threading.Event(), anyio.Event()

    def enter(number: int) -> int:
        crowd.enter()
        if crowd.now == 2:
            anyio.from_thread.run_sync(full.set)
        gate.wait()
        crowd.leave()
        return number

    @workflow(name="threads")
    def body() -> Durable[list[int]]:
        return list((yield from gather(*(call(enter, number) for number in range(5)))))

    async with WorkflowEngine("memory://", config=EngineConfig(max_threads=2)) as engine:
        handle = await engine.start(body())
        await full.wait()
        await wait_all_tasks_blocked()
        assert crowd.now == 2
        gate.set()
        assert await handle.result(timeout=SOON) == list(range(5))
    assert crowd.most == 2


async def test_abandoned_thread_frees_its_slot() -> None:
    """A thread that never returns frees its place among `max_threads` when its attempt times out."""
    gate = threading.Event()

    def stuck() -> None:
        gate.wait()

    @workflow(name="slot")
    def body() -> Durable[int]:
        for _ in range(3):
            with contextlib.suppress(ActivityTimedOut):
                yield from call(stuck, retry=Retry.never(), timeout=0.02)
        return (yield from call(int, "7"))

    async with WorkflowEngine("memory://", config=EngineConfig(max_threads=1)) as engine:
        try:
            assert await (await engine.start(body())).result(timeout=SOON) == 7
        finally:
            gate.set()


async def test_failure_in_a_gather_stops_the_others(store: Store) -> None:
    """The first failure is raised; the other activities, running or queued, are stopped."""
    started, stopped = anyio.Event(), anyio.Event()

    @activity
    async def endless() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    @activity(retry=Retry.never())
    async def fails() -> None:
        await started.wait()
        raise ValueError("first")

    @activity
    async def later() -> None:
        await anyio.sleep_forever()

    @workflow(name="gather-fails")
    def body() -> Durable[str]:
        try:
            yield from gather(endless(), fails(), later())
        except ValueError as error:
            return str(error)
        return "no failure"

    async with WorkflowEngine(store, config=EngineConfig(max_running_activities=2)) as engine:
        handle = await engine.start(body(), id="a")
        assert await handle.result(timeout=SOON) == "first"
        with anyio.fail_after(SOON):
            await stopped.wait()
        assert [entry.status for entry in await engine.runs.history("a")] == [EntryStatus.ERROR]


async def test_many_short_activities_all_finish(store: Store) -> None:
    """Fifty workflows of twenty activities each, in threads and on the loop, all end with their sum."""

    async def add(total: int) -> int:
        return total + 1

    def add_in_thread(total: int) -> int:
        return total + 1

    @workflow(name="many")
    def body() -> Durable[int]:
        total = 0
        for number in range(20):
            total = yield from (call(add, total) if number % 5 else call(add_in_thread, total))
        return total

    async with WorkflowEngine(store) as engine:
        handles = [await engine.start(body()) for _ in range(50)]
        assert [await handle.result(timeout=SOON) for handle in handles] == [20] * 50


async def test_timeout_begins_with_the_thread() -> None:
    """A plain function that waits for a free worker thread is not timed out before it has begun."""
    begun, may_end = threading.Event(), threading.Event()

    @activity(timeout=60.0, retry=Retry.never())
    def work(value: int) -> int:
        begun.set()
        may_end.wait(SOON)
        return value

    @workflow(name="limits.threads")
    def body() -> Durable[list[int]]:
        return list((yield from gather(work(1), work(2))))

    async with WorkflowEngine("memory://", config=EngineConfig(max_threads=1)) as engine:
        handle = await engine.start(body())
        assert await anyio.to_thread.run_sync(begun.wait, SOON)
        pool = engine._core.check_open().pool
        with anyio.fail_after(SOON):
            while not pool._attempts.short_of_threads:
                await anyio.lowlevel.checkpoint()
        deadlines = [scope.deadline for scope, _ in pool._running.values()]
        may_end.set()
        assert await handle.result(timeout=SOON) == [1, 2]
    assert len(deadlines) == 2
    assert deadlines.count(math.inf) == 1
