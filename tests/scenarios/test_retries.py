"""Retries are durable: the count and the time of the next attempt survive every restart."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from durable import (
    Durable,
    EntryStatus,
    NonRetryable,
    Retry,
    RetryAfter,
    WorkflowEngine,
    WorkflowFailed,
    activity,
    activity_info,
    workflow,
)
from durable.testing.clock import NOON, ManualClock
from tests.scenarios.kit import SOON, Store, move, waiting

pytestmark = pytest.mark.anyio


class Hopeless(NonRetryable):
    """An error that no other attempt can fix."""


async def test_retry_count_survives_restarts(store: Store) -> None:
    """With a new engine for each attempt the third is still the last, and all have the same idempotency key."""
    clock, attempts, keys = ManualClock(), list[int](), set[str]()

    @activity(retry=Retry(max_attempts=3, first_delay=60, jitter=0))
    async def flaky() -> None:
        attempts.append(activity_info().attempt)
        keys.add(activity_info().idempotency_key)
        raise OSError(5, "still broken")

    @workflow(name="flaky")
    def body() -> Durable[None]:
        yield from flaky()

    async with WorkflowEngine(store, workflows=[body], clock=clock) as engine:
        await engine.start(body(), id="a")
        wait = await waiting(engine, "a", "activity", attempt=2)
        assert wait.until == NOON + timedelta(seconds=60)
        assert "still broken" in (wait.last_error or "")
    async with WorkflowEngine(store, workflows=[body], clock=clock) as engine:
        await move(engine, clock, 59)
        assert attempts == [1]
        await move(engine, clock, 1)
        wait = await waiting(engine, "a", "activity", attempt=3)
        assert wait.until == NOON + timedelta(seconds=180)
    clock.advance(120)
    async with WorkflowEngine(store, workflows=[body], clock=clock) as engine:
        with pytest.raises(WorkflowFailed) as caught:
            await engine.handle("a").result(timeout=SOON)
        assert isinstance(caught.value.__cause__, OSError)
        assert caught.value.__cause__.errno == 5
    assert (attempts, len(keys)) == ([1, 2, 3], 1)


async def test_retry_that_succeeds_leaves_its_failures_in_history(store: Store) -> None:
    """A failed attempt is a separate entry, with the time of the next, and the body does not see it."""
    clock, attempts = ManualClock(), list[int]()

    @activity(retry=Retry(first_delay=1, factor=3, jitter=0))
    def flaky() -> int:
        attempts.append(1)
        if len(attempts) < 3:
            raise ValueError("not yet")
        return len(attempts)

    @workflow(name="flaky-then-fine")
    def body() -> Durable[int]:
        return (yield from flaky())

    async with WorkflowEngine(store, clock=clock) as engine:
        handle = await engine.start(body(), id="a")
        for attempt, delay in ((2, 1), (3, 3)):
            await waiting(engine, "a", "activity", attempt=attempt)
            await move(engine, clock, delay)
        assert await handle.result(timeout=SOON) == 3
        history = await engine.runs.history("a")
    assert [entry.status for entry in history] == [EntryStatus.RETRY, EntryStatus.RETRY, EntryStatus.OK]
    assert [entry.retry_at for entry in history] == [NOON + timedelta(seconds=1), NOON + timedelta(seconds=4), None]


@pytest.mark.parametrize("error", [NonRetryable("stop"), Hopeless("stop"), KeyError("stop")])
async def test_retry_stops_at_an_error_that_is_not_to_be_retried(store: Store, error: Exception) -> None:
    """`NonRetryable`, its subclasses and errors outside `retry_on` are final at the first attempt."""
    attempts: list[int] = []

    @activity(retry=Retry(max_attempts=9, first_delay=0, retry_on=(ValueError, NonRetryable)))
    async def hopeless() -> None:
        attempts.append(1)
        raise error

    @workflow(name="hopeless")
    def body() -> Durable[None]:
        yield from hopeless()

    async with WorkflowEngine(store) as engine:
        with pytest.raises(WorkflowFailed) as caught:
            await (await engine.start(body())).result(timeout=SOON)
    assert type(caught.value.__cause__) is type(error)
    assert attempts == [1]


async def test_retry_after_sets_the_next_time(store: Store) -> None:
    """An activity that names the time of its next attempt is tried then, whatever its policy says."""
    clock, attempts = ManualClock(), list[int]()

    @activity(retry=Retry(first_delay=1, jitter=0))
    async def busy() -> int:
        attempts.append(1)
        if len(attempts) == 1:
            raise RetryAfter(timedelta(hours=2))
        return 7

    @workflow(name="busy")
    def body() -> Durable[int]:
        return (yield from busy())

    async with WorkflowEngine(store, clock=clock) as engine:
        handle = await engine.start(body(), id="a")
        assert (await waiting(engine, "a", "activity", attempt=2)).until == NOON + timedelta(hours=2)
        await move(engine, clock, timedelta(hours=2) - timedelta(seconds=1))
        assert attempts == [1]
        await move(engine, clock, 1)
        assert await handle.result(timeout=SOON) == 7


async def test_unlimited_retries_go_on(store: Store) -> None:
    """With `max_attempts=None` the hundredth attempt may still succeed, and delays stop growing at `max_delay`."""
    clock, attempts = ManualClock(), list[int]()

    @activity(retry=Retry(max_attempts=None, first_delay=1, max_delay=8, jitter=0))
    async def stubborn() -> int:
        attempts.append(1)
        if len(attempts) < 100:
            raise ValueError("no")
        return len(attempts)

    @workflow(name="stubborn-retries")
    def body() -> Durable[int]:
        return (yield from stubborn())

    async with WorkflowEngine(store, clock=clock) as engine:
        handle = await engine.start(body(), id="a")
        for attempt in range(2, 101):
            await waiting(engine, "a", "activity", attempt=attempt)
            await move(engine, clock, 8)
        assert await handle.result(timeout=SOON) == 100


async def test_cancelled_retry_never_runs(store: Store) -> None:
    """A workflow that is cancelled while it waits for the next attempt ends, and the attempt never runs."""
    clock, attempts = ManualClock(), list[int]()

    @activity(retry=Retry(max_attempts=None, first_delay=60, jitter=0))
    async def fails() -> None:
        attempts.append(1)
        raise ValueError("no")

    @workflow(name="cancelled-retry")
    def body() -> Durable[None]:
        yield from fails()

    async with WorkflowEngine(store, clock=clock) as engine:
        await engine.start(body(), id="a")
        await waiting(engine, "a", "activity", attempt=2)
        assert await engine.cancel("a")
        await move(engine, clock, timedelta(days=1))
        summary = (await engine.runs.describe("a")).summary
    assert (summary.status.value, summary.wake_at, attempts) == ("cancelled", None, [1])


@pytest.mark.parametrize("delay", [-1, float("nan"), "5", timedelta.max, timedelta(days=365 * 7990)])
async def test_senseless_retry_after_fails_the_activity(delay: Any) -> None:
    """A senseless delay fails the activity, and the workflow does not hang."""

    @activity(retry=Retry(max_attempts=2))
    async def confused() -> None:
        raise RetryAfter(delay)

    @workflow(name="retries.senseless_delay")
    def body() -> Durable[None]:
        yield from confused()

    async with WorkflowEngine("memory://") as engine:
        handle = await engine.start(body(), id="a")
        with pytest.raises(WorkflowFailed):
            await handle.result(timeout=2)
        await engine.runs.describe("a")
