"""Faults of activities that a review found: successors, contexts, errors, threads, great gathers."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterable
from contextvars import ContextVar
from datetime import timedelta
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
    NonRetryable,
    Retry,
    RetryAfter,
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
number = Event[int]("reviewed.number")


class Opaque:
    """A type that cannot be stored."""


text = Event[str]("reviewed.number")
colour = ContextVar("colour", default="clean")
odd = ContextVar[object]("odd", default=None)


class Odd:
    """What cannot be compared, like an array."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        """Refuse."""
        raise ValueError("the truth value is ambiguous")


class Declined(NonRetryable):
    """Has a field and an `__init__` of its own."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Refused(NonRetryable):
    """Comes back as something else, as its arguments are not those of its `__init__`."""

    def __init__(self, code: int) -> None:
        super().__init__(f"refused {code}")
        self.code = code


class SlowToStop:
    """An activity whose first attempt stops only when it may."""

    def __init__(self) -> None:
        self.runs = 0
        self.begun = [anyio.Event(), anyio.Event()]
        self.stopping, self.may_stop, self.may_end = anyio.Event(), anyio.Event(), anyio.Event()

    async def run(self) -> int:
        """Wait to be cancelled, or to be let go."""
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
    """Wait until no activity runs or waits for its turn."""
    pool = engine._core.check_open().pool
    with anyio.fail_after(SOON):
        while pool._running or pool._waiting:
            await anyio.lowlevel.checkpoint()


async def test_activity_that_is_slow_to_stop_may_have_a_successor() -> None:
    """The end of a stopped activity neither stops the next run of the same one nor takes its answer."""
    slow = SlowToStop()

    @activity
    async def work() -> int:
        return await slow.run()

    def run(attempt: int) -> RunActivity:
        return RunActivity(1, "w", 0, "0", attempt, work, (), {})

    told: list[RecordActivity | BeginAttempt] = []
    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            pool = ActivityPool(
                tasks, told.append, Codec(), EngineConfig(), waiter=LoopBridge().waiter, is_cancelled=bool
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
    assert [(one.attempt, one.value) for one in told if isinstance(one, RecordActivity)] == [(2, 2)]


async def test_parked_workflow_goes_on_while_its_activity_stops() -> None:
    """A workflow that is recovered before its old activity has stopped does not end the engine."""
    slow = SlowToStop()
    slow.may_end.set()

    @activity
    async def work() -> int:
        return await slow.run()

    @workflow(name="reviewed.parked")
    def body() -> Durable[None]:
        yield from gather(work(), Event[Opaque]("reviewed.opaque").wait())

    with anyio.fail_after(SOON):
        async with WorkflowEngine("memory://") as engine:
            handle = await engine.start(body(), id="a")
            await slow.begun[0].wait()
            await engine._core.ask(SendEvent(name="reviewed.opaque", payload="1", to="a"))
            assert await handle.status() is WorkflowStatus.PARKED
            await slow.stopping.wait()
            await engine.recover()
            slow.may_stop.set()
            await engine.query_status("x")
            await quiet(engine)
            assert slow.runs == 1
            assert await handle.status() is WorkflowStatus.PARKED


async def test_context_of_an_activity_stays_in_it() -> None:
    """A context variable that one activity has set does not reach the next ones."""

    @activity
    async def dirty() -> str:
        colour.set("dirty")
        await anyio.lowlevel.checkpoint()
        return colour.get()

    @activity
    async def look() -> str:
        return colour.get()

    @workflow(name="reviewed.colours")
    def body() -> Durable[list[str]]:
        return list((yield from gather(dirty(), look(), look())))

    async with WorkflowEngine("memory://", config=EngineConfig(max_running_activities=1)) as engine:
        handle = await engine.start(body())
        assert await handle.result(timeout=SOON) == ["dirty", "clean", "clean"]


async def test_context_with_values_that_cannot_be_compared() -> None:
    """A context variable whose value refuses `==` does no harm."""

    @activity(retry=Retry.never())
    async def set_odd() -> int:
        odd.set(Odd())
        return 1

    @workflow(name="reviewed.odd")
    def body() -> Durable[int]:
        return (yield from set_odd())

    before = odd.set(Odd())
    try:
        async with WorkflowEngine("memory://") as engine:
            for _ in range(3):
                assert await (await engine.start(body())).result(timeout=SOON) == 1
    finally:
        odd.reset(before)


async def test_non_retryable_with_a_field_is_caught_by_its_class() -> None:
    """A subclass of NonRetryable may have fields; it is not retried, and the workflow catches it by its class."""
    attempts: list[int] = []

    @activity(retry=Retry(max_attempts=3, first_delay=0))
    async def pay() -> None:
        attempts.append(1)
        raise Declined("card")

    @workflow(name="reviewed.declined")
    def body() -> Durable[str]:
        try:
            yield from pay()
        except Declined as error:
            return error.code
        return "paid"

    async with WorkflowEngine("memory://") as engine:
        assert await (await engine.start(body())).result(timeout=SOON) == "card"
    assert len(attempts) == 1


async def test_non_retryable_that_cannot_be_rebuilt_is_not_retried() -> None:
    """A subclass of NonRetryable whose arguments differ from its `__init__` is not retried either."""
    attempts: list[int] = []

    @activity(retry=Retry(max_attempts=3, first_delay=0))
    async def pay() -> None:
        attempts.append(1)
        raise Refused(5)

    @workflow(name="reviewed.refused")
    def body() -> Durable[None]:
        yield from pay()

    async with WorkflowEngine("memory://") as engine:
        with pytest.raises(WorkflowFailed, match="refused 5"):
            await (await engine.start(body())).result(timeout=SOON)
    assert len(attempts) == 1


async def test_last_retry_after_comes_back_as_itself() -> None:
    """A RetryAfter with a timedelta that uses up the attempts is caught as RetryAfter, with its delay."""

    @activity(retry=Retry(max_attempts=1))
    async def busy() -> None:
        raise RetryAfter(timedelta(milliseconds=1500), "busy")

    @workflow(name="reviewed.retry-after")
    def body() -> Durable[tuple[float, str]]:
        try:
            yield from busy()
        except RetryAfter as error:
            return float(str(error.delay)), error.message
        return 0.0, ""

    async with WorkflowEngine("memory://") as engine:
        assert await (await engine.start(body())).result(timeout=SOON) == (1.5, "busy")


async def test_timeout_begins_with_the_thread() -> None:
    """A plain function that waits for a free worker thread is not timed out before it has begun."""
    begun, may_end = threading.Event(), threading.Event()

    @activity(timeout=60.0, retry=Retry.never())
    def work(value: int) -> int:
        begun.set()
        may_end.wait(SOON)
        return value

    @workflow(name="reviewed.threads")
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


async def test_great_gather_that_fails_is_stopped_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gather of 2,000 activities that fails does not rebuild the queue for each that is stopped."""
    queues: list[deque[Any]] = []

    def count(items: Iterable[Any] = ()) -> deque[Any]:
        queues.append(deque(items))
        return queues[-1]

    @activity(retry=Retry.never())
    async def work(value: int) -> None:
        if value == 0:
            raise ValueError("the first one fails")
        await anyio.sleep_forever()

    @workflow(name="reviewed.great-gather")
    def body() -> Durable[None]:
        yield from gather(*(work(value) for value in range(2000)))

    monkeypatch.setattr(activities, "deque", count)
    async with WorkflowEngine("memory://", config=EngineConfig(max_running_activities=10)) as engine:
        with pytest.raises(WorkflowFailed):
            await (await engine.start(body())).result(timeout=SOON)
        await quiet(engine)
    assert len(queues) < 20
