"""Calls that block the event loop are named: a sync engine on a loop, and an async activity that blocks."""

from __future__ import annotations

import logging
import threading
from typing import Any

import anyio
import pytest

from durable import (
    ActivityTimedOut,
    Durable,
    OperationMisused,
    Retry,
    SyncWorkflowEngine,
    WorkflowEngine,
    WorkflowFailed,
    activity,
    workflow,
)
from tests.scenarios.kit import SOON

pytestmark = pytest.mark.anyio


@activity
async def add_one(number: int) -> int:
    """Some work."""
    return number + 1


@activity(timeout=0.02, retry=Retry(max_attempts=2, first_delay=0))
async def blocks() -> str:
    """Blocks the loop for longer than its timeout."""
    threading.Event().wait(0.3)
    return "done"


@activity(timeout=0.02, retry=Retry.never())
def takes_its_time() -> str:
    """The same in a thread, where it blocks nothing."""
    threading.Event().wait(0.3)
    return "done"


@workflow(name="blocked-loops")
def adds(number: int) -> Durable[int]:
    """One step."""
    return (yield from add_one(number))


@workflow(name="blocked-loops-blocks")
def runs(in_thread: bool) -> Durable[Any]:
    """One step that takes too long."""
    return (yield from takes_its_time() if in_thread else blocks())


async def test_sync_engine_on_a_loop_is_refused() -> None:
    """Opening it or calling it names the right engine and the line of the call; closing it works."""
    with pytest.raises(OperationMisused, match=f"use WorkflowEngine with 'async with'.*{__file__}"):
        SyncWorkflowEngine("memory://").__enter__()
    engine = await anyio.to_thread.run_sync(SyncWorkflowEngine("memory://").__enter__)
    try:
        with pytest.raises(OperationMisused, match="event loop"):
            engine.start(adds(1))
        handle = await anyio.to_thread.run_sync(lambda: engine.start(adds(1)))
        with pytest.raises(OperationMisused, match="event loop"):
            handle.result()
        assert await anyio.to_thread.run_sync(handle.result) == 2
    finally:
        await anyio.to_thread.run_sync(engine.__exit__, None, None, None)


async def test_async_activity_that_blocks_past_its_timeout_has_timed_out(caplog: pytest.LogCaptureFixture) -> None:
    """The attempt counts as timed out although it returned a value, and the activity is named once."""
    with caplog.at_level(logging.WARNING, "durable"):
        async with WorkflowEngine("memory://") as engine:
            with pytest.raises(WorkflowFailed, match="blocks") as caught:
                await (await engine.start(runs(False))).result(timeout=SOON)
    assert isinstance(caught.value.__cause__, ActivityTimedOut)
    (line,) = [record for record in caplog.records if "held up the event loop" in record.getMessage()]
    assert "activity 'blocks'" in line.getMessage()
    assert (line.workflow_name, line.position) == ("blocked-loops-blocks", "0")  # type: ignore[attr-defined]


async def test_activity_in_a_thread_blocks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A plain function that takes too long also times out, but the log does not mention the loop."""
    with caplog.at_level(logging.WARNING, "durable"):
        async with WorkflowEngine("memory://") as engine:
            with pytest.raises(WorkflowFailed):
                await (await engine.start(runs(True))).result(timeout=SOON)
    assert not [record for record in caplog.records if "event loop" in record.getMessage()]
