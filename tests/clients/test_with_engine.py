"""A client of a running engine: every call and group, over its socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

from durable import (
    CodecError,
    Delivered,
    OpenPause,
    PauseNotFound,
    Queued,
    SyncWorkflowClient,
    UnknownWorkflow,
    WorkflowAlreadyExists,
    WorkflowClient,
    WorkflowEngine,
    WorkflowFailed,
    WorkflowNotFound,
    WorkflowRef,
    WorkflowStatus,
    WrongWorkflow,
)
from tests.clients.flows import WORKFLOWS, Order, asking, by_name, checkout, doomed, go

pytestmark = pytest.mark.anyio


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[WorkflowEngine]:
    """An engine on a file, in the loop of the test."""
    async with WorkflowEngine(tmp_path / "store.db", workflows=WORKFLOWS) as running:
        yield running


@pytest.fixture
async def client(engine: WorkflowEngine, tmp_path: Path) -> AsyncIterator[WorkflowClient]:
    """A client of that engine."""
    async with WorkflowClient(tmp_path / "store.db") as asking_client:
        yield asking_client


async def test_client_starts_by_name_and_reads_the_result(client: WorkflowClient) -> None:
    """The engine checks the arguments, and the handle reads the result as the ref says."""
    handle = await client.start(by_name(order={"sku": "tea"}), id="w", tags=["eu"])
    assert await client.send_event(go, 3, to="w") == Delivered(("w",))
    assert await handle.result(timeout=10) == Order("tea", 3)
    assert await client.handle("w").result() == {"sku": "tea", "count": 3}
    assert await client.query_result("w") == {"sku": "tea", "count": 3}


async def test_call_of_the_function_is_the_same_call_as_by_name(client: WorkflowClient) -> None:
    """Whoever asks, and however: the second start finds the first."""
    await client.start(checkout(Order("tea")), id="w")
    await client.start(by_name(order={"sku": "tea"}, note="none"), id="w")
    with pytest.raises(WorkflowAlreadyExists):
        await client.start(by_name(order={"sku": "milk"}), id="w")


async def test_lists_do_not_ask_the_engine(engine: WorkflowEngine, tmp_path: Path) -> None:
    """They come from the file, with the last commit: here the event loop that the engine answers in stands still."""
    await engine.start(asking(), id="w")

    def listed() -> list[str]:
        with SyncWorkflowClient(tmp_path / "store.db", timeout=5) as client:
            return [*(run.id for run in client.runs.list()), *(pause.workflow_id for pause in client.pauses.list())]

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(listed).result() == ["w", "w"]


async def test_refusals_arrive_as_themselves(client: WorkflowClient) -> None:
    """Errors of the decision and of the checks before it."""
    with pytest.raises(WorkflowNotFound):
        await client.send_event(go, 1, to="nobody")
    with pytest.raises(UnknownWorkflow):
        await client.start(WorkflowRef("clients.gone")())
    with pytest.raises(CodecError):
        await client.start(by_name(order={"colour": "red"}))
    await client.start(doomed(), id="d")
    with pytest.raises(WrongWorkflow):
        await client.handle("d", by_name).status()


async def test_error_of_a_workflow_is_raised_with_its_cause(client: WorkflowClient) -> None:
    """As in the process of the engine."""
    handle = await client.start(doomed())
    with pytest.raises(WorkflowFailed) as failed:
        await handle.result(timeout=10)
    assert isinstance(failed.value.__cause__, ValueError)


async def test_groups_work_from_another_process(client: WorkflowClient, engine: WorkflowEngine) -> None:
    """Runs, pauses, events, dead letters and schedules."""
    await client.start(asking(), id="a")
    (question,) = await client.pauses.list()
    assert isinstance(question, OpenPause)
    with pytest.raises(PauseNotFound):
        await client.pauses.resume("a", "other", "because")
    await client.pauses.resume("a", question.pause_id, "because")
    assert await client.handle("a").result(timeout=10) == "because"
    assert await client.send_event(go, 1) == Queued()
    (event,) = await client.events.list()
    await client.events.remove(event.id)
    assert await client.dead_letters.list() == []
    await client.schedules.create("s", by_name(order={"sku": "tea"}), every=3600)
    run = await client.schedules.trigger("s")
    (schedule,) = await client.schedules.list()
    assert (schedule.name, schedule.last_run) == ("s", run.id)
    assert [summary.id for summary in await client.runs.list()] == [run.id, "a"]
    assert (await client.runs.describe(run.id)).waits == (await engine.runs.describe(run.id)).waits
    assert await client.runs.history("a") == await engine.runs.history("a")
    assert await client.cancel(run.id)
    assert await client.runs.purge(0) == 2


async def test_watch_streams_to_the_end(client: WorkflowClient) -> None:
    """The status and progress now, and every change."""
    handle = await client.start(checkout(Order("tea")))
    seen = []
    async for update in handle.watch(str):
        seen.append((update.status, update.progress))
        if len(seen) == 1:
            await client.send_event(go, 1, to=handle.id)
    assert seen == [(WorkflowStatus.SUSPENDED, "waiting"), (WorkflowStatus.SUCCEEDED, "waiting")]


async def test_many_calls_share_one_connection(client: WorkflowClient) -> None:
    """Also if they begin at the same time, before the connection is open."""
    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(_start, client, str(number))
    assert await client.runs.count() == 50


async def _start(client: WorkflowClient, id: str) -> None:
    await client.start(by_name(order={"sku": "tea"}), id=id)


async def test_client_outlives_the_engine(client: WorkflowClient, engine: WorkflowEngine, tmp_path: Path) -> None:
    """It finds the next owner, and a wait for a result goes on there."""
    handle = await client.start(checkout(Order("tea")), id="w")
    results: list[Any] = []

    async def wait() -> None:
        results.append(await handle.result())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await client.query_status("w")
        await engine.shutdown()
        async with WorkflowEngine(tmp_path / "store.db", workflows=WORKFLOWS) as successor:
            await successor.send_event(go, 2, to="w")
            with anyio.fail_after(10):
                while not results:
                    await client.query_status("w")
    assert results == [Order("tea", 2)]
