"""The engine keeps nothing in memory for workflows that only wait, were only looked at, or are no longer watched."""

from __future__ import annotations

from pathlib import Path

import pytest

from durable import Durable, EngineConfig, Event, WorkflowEngine, activity, workflow
from durable.testing.clock import ManualClock
from tests.scenarios.kit import SOON, move, waiting

pytestmark = pytest.mark.anyio
answer = Event[int]("memory.answer")


@activity
async def echo(number: int) -> int:
    """Return the number."""
    return number


@workflow(name="memory.echo-and-wait")
def echo_and_wait(number: int) -> Durable[int]:
    """Run an activity, then wait for a number."""
    yield from echo(number)
    return (yield from answer.wait())


async def test_workflow_that_waits_costs_no_memory() -> None:
    """For an evicted body nothing is kept, not even an empty table of its activities."""
    async with WorkflowEngine("memory://", config=EngineConfig(max_loaded_workflows=1)) as engine:
        for number in range(20):
            await engine.start(echo_and_wait(number), id=f"w{number}")
        for number in range(20):
            await waiting(engine, f"w{number}", "event")
        await engine.query_status("x")
        coordinator = engine._core.check_open().coordinator
        assert len(coordinator.state.in_flight) <= 3


async def test_abandoned_waits_for_a_result_are_forgotten() -> None:
    """Callers that stopped waiting for a workflow's end are forgotten at the next sweep."""
    clock = ManualClock()
    async with WorkflowEngine("memory://", config=EngineConfig(sweep_every=60), clock=clock) as engine:
        coordinator = engine._core.check_open().coordinator
        for number in range(5):
            handle = await engine.start(echo_and_wait(number), id=f"w{number}")
            with pytest.raises(TimeoutError):
                await handle.result(timeout=0)
        await engine.query_status("x")
        assert len(coordinator._watchers) == 5
        await move(engine, clock, 61)
        await engine.query_status("x")
        assert not coordinator._watchers
        await engine.send_event(answer, 7, to="w0")
        assert await engine.handle("w0").result(timeout=SOON) == 7


async def test_looking_at_workflows_keeps_memory_bounded(file: Path) -> None:
    """Bodies that were rebuilt only for a description are evicted like all others."""
    async with WorkflowEngine(file) as engine:
        for number in range(50):
            await engine.start(echo_and_wait(number), id=f"w{number}")
    async with WorkflowEngine(file, config=EngineConfig(max_loaded_workflows=2)) as engine:
        for number in range(50):
            await engine.runs.describe(f"w{number}")
        coordinator = engine._core.check_open().coordinator
        assert len(coordinator.state.loaded) <= 3
