"""A client of a store that no engine has open: it reads the file, and keeps starts and events for the next engine."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from durable import (
    CodecError,
    DeadLetterReason,
    EngineNotRunning,
    EventConflict,
    InvalidValue,
    PayloadTooLarge,
    Queued,
    StoreUnusable,
    WorkflowAlreadyExists,
    WorkflowClient,
    WorkflowEngine,
    WorkflowFailed,
    WorkflowNotFound,
    WorkflowRef,
    WorkflowStatus,
    WorkflowTerminated,
    WrongType,
)
from durable.backends.base import KeptRequests
from durable.backends.sqlite import SqliteBackend
from tests.clients.flows import WORKFLOWS, Order, asking, by_name, checkout, doomed, go
from tests.scenarios.kit import contents

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    """A store with a finished, a failed, a waiting and an asking run, whose engine has stopped."""
    path = tmp_path / "store.db"
    async with WorkflowEngine(path, workflows=WORKFLOWS) as engine:
        await engine.start(checkout(Order("tea")), id="done")
        await engine.send_event(go, 3, to="done", event_id="e-1")
        await engine.start(doomed(), id="failed")
        await engine.start(asking(), id="asking")
        await engine.start(checkout(Order("milk")), id="waiting", tags=["eu"])
        await engine.schedules.create("s", by_name(order={"sku": "tea"}), every=3600)
        await engine.handle("done").result()
    return path


async def test_reads_are_answered_from_the_file(store: Path) -> None:
    """Everything that reads works, and changes nothing."""
    before = contents(store)
    async with WorkflowClient(store) as client:
        assert await client.handle("done", by_name).result() == Order("tea", 3)
        assert await client.query_result("done") == {"sku": "tea", "count": 3}
        with pytest.raises(WorkflowFailed):
            await client.handle("failed").result()
        assert [run.id for run in await client.runs.list()] == ["waiting", "asking", "failed", "done"]
        assert [run.id async for run in client.runs.scan(limit=3)] == ["waiting", "asking", "failed"]
        assert await client.runs.count(status=WorkflowStatus.SUSPENDED) == 2
        assert len(await client.runs.history("done")) == 1
        description = await client.runs.describe("waiting")
        assert (description.summary.status, description.summary.kept) == (WorkflowStatus.SUSPENDED, False)
        assert "no engine runs" in (description.problem or "")
        assert await client.handle("waiting").progress(str) == "waiting"
        assert [pause.workflow_id for pause in await client.pauses.list()] == ["asking"]
        assert await client.events.list() == []
        assert await client.dead_letters.list() == []
        assert [schedule.name for schedule in await client.schedules.list()] == ["s"]
        with pytest.raises(WorkflowNotFound):
            await client.runs.describe("nobody")
    assert contents(store) == before


async def test_kept_start_and_event_reach_the_next_engine(store: Path) -> None:
    """A handle of the kept start waits for it, and the next engine decides both."""
    async with WorkflowClient(store) as client:
        handle = await client.start(by_name(order={"sku": "tea"}), id="kept")
        assert await client.send_event(go, 5, to="kept") == Queued()
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0)
        async with WorkflowEngine(store, workflows=WORKFLOWS):
            assert await handle.result(timeout=10) == Order("tea", 5)
        assert await handle.result() == Order("tea", 5)


async def test_kept_requests_are_shown(store: Path) -> None:
    """In lists and counts, page by page, in descriptions, and by status."""
    async with WorkflowClient(store) as client:
        for number in range(3):
            await client.start(by_name(order={"sku": "tea"}), id=f"kept-{number}", tags=["eu"])
        await client.send_event(go, 1, to="kept-0")
        await client.send_event(go, 2)
        runs = await client.runs.list(tag="eu")
        assert [(run.id, run.kept) for run in runs] == [
            ("kept-2", True), ("kept-1", True), ("kept-0", True), ("waiting", False)
        ]  # fmt: skip
        assert [run.id async for run in client.runs.scan(id_prefix="k")] == ["kept-2", "kept-1", "kept-0"]
        assert await client.runs.count(until=runs[0].created_at - timedelta(days=1)) == 0
        assert await client.runs.count(parent="done") == 0
        assert [run.id for run in await client.runs.list(limit=2)] == ["kept-2", "kept-1"]
        assert [run.id for run in await client.runs.list(limit=3, after="kept-1")] == ["kept-0", "waiting", "asking"]
        assert await client.runs.list(status=WorkflowStatus.FAILED, tag="eu") == []
        assert await client.runs.count(name="clients.checkout") == 5
        assert await client.query_status("kept-0") is WorkflowStatus.SUSPENDED
        assert (await client.runs.describe("kept-0")).summary.kept
        assert await client.runs.history("kept-0") == []
        assert [(event.to, event.payload) for event in await client.events.list()] == [("kept-0", 1), (None, 2)]
        assert [event.payload for event in await client.events.list(to="kept-0")] == [1]


async def test_repeated_start_is_kept_once(store: Path) -> None:
    """The same call under the same id; another call is refused, also against runs that are stored."""
    async with WorkflowClient(store) as client:
        for _ in range(2):
            await client.start(checkout(Order("tea")), id="kept")
        assert await client.runs.count() == 5
        assert (await client.start(checkout(Order("milk")), id="waiting", tags=["eu"])).id == "waiting"
        for id in ("kept", "waiting"):
            with pytest.raises(WorkflowAlreadyExists):
                await client.start(doomed(), id=id)
        with pytest.raises(EngineNotRunning, match="only it can tell"):
            await client.start(by_name(order={"sku": "tea"}), id="kept")


Call = Callable[[WorkflowClient], Awaitable[Any]]
REFUSED: dict[str, tuple[Call, type[Exception]]] = {
    "an ended target": (lambda client: client.send_event(go, 1, to="done"), WorkflowTerminated),
    "an unknown target": (lambda client: client.send_event(go, 1, to="nobody"), WorkflowNotFound),
    "a used event id": (lambda client: client.send_event(go, 4, to="done", event_id="e-1"), EventConflict),
    "arguments that are not JSON": (lambda client: client.start(by_name(order=Order("tea"))), CodecError),
    "an id that cannot be one": (lambda client: client.start(doomed(), id="a\0b"), InvalidValue),
    "large arguments": (lambda client: client.start(by_name(order={"sku": "x" * (1 << 20)})), PayloadTooLarge),
    "a large payload": (lambda client: client.start(WorkflowRef("x")(y="x" * (1 << 20))), PayloadTooLarge),
    "a cancel": (lambda client: client.cancel("waiting"), EngineNotRunning),
    "an answer": (lambda client: client.pauses.resume("asking", "0", "x"), EngineNotRunning),
    "a purge": (lambda client: client.runs.purge(0), EngineNotRunning),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_what_needs_no_code_is_refused_at_once(store: Path, what: str) -> None:
    """And so is everything that only an engine can do. Nothing is kept."""
    call, error = REFUSED[what]
    async with WorkflowClient(store) as client:
        with pytest.raises(error):
            await call(client)
    assert SqliteBackend(store).read(lambda reads: reads.find(KeptRequests(limit=9))) == []


async def test_event_ids_count_among_kept_events(store: Path) -> None:
    """The same event once, another one under the same id not at all; a repeat of a sent one gets its first answer."""
    async with WorkflowClient(store) as client:
        for _ in range(2):
            assert await client.send_event(go, 1, event_id="e-2") == Queued()
        assert len(await client.events.list()) == 1
        with pytest.raises(EventConflict):
            await client.send_event(go, 2, event_id="e-2")
        assert await client.send_event(go, 3, to="done", event_id="e-1") != Queued()


async def test_refused_requests_leave_a_trace(store: Path) -> None:
    """A start becomes a failed run, an event a dead letter."""
    async with WorkflowClient(store) as client:
        refused = await client.start(by_name(order={"colour": "red"}), id="kept")
        await client.send_event(go, 1, to="kept")
        async with WorkflowEngine(store, workflows=WORKFLOWS):
            with pytest.raises(WorkflowFailed) as failed:
                await refused.result(timeout=10)
            assert isinstance(failed.value.__cause__, CodecError)
            (letter,) = await client.dead_letters.list()
            assert (letter.reason, letter.workflow_id) == (DeadLetterReason.REFUSED, "kept")


async def test_client_that_refuses_keeps_nothing(store: Path) -> None:
    """With `no_engine="refuse"` a start and an event need an engine too."""
    async with WorkflowClient(store, no_engine="refuse") as client:
        with pytest.raises(EngineNotRunning):
            await client.start(checkout(Order("tea")))
        with pytest.raises(EngineNotRunning):
            await client.send_event(go, 1)
        assert await client.query_status("waiting") is WorkflowStatus.SUSPENDED


async def test_watch_of_a_file_ends_with_the_workflow(store: Path) -> None:
    """It begins without an engine, and goes on with one."""
    async with WorkflowClient(store) as client:
        watch = client.handle("waiting").watch()
        update = await watch.next()
        assert update is not None
        assert update.status is WorkflowStatus.SUSPENDED
        async with WorkflowEngine(store, workflows=WORKFLOWS) as engine:
            await engine.send_event(go, 1, to="waiting")
            with anyio.fail_after(10):
                update = await watch.next()
        assert update is not None
        assert update.status is WorkflowStatus.SUCCEEDED


async def test_missing_store_is_not_created(tmp_path: Path) -> None:
    """Neither by a read nor by a start."""
    path = tmp_path / "missing.db"
    async with WorkflowClient(path) as client:
        with pytest.raises(StoreUnusable):
            await client.query_status("w")
        with pytest.raises(StoreUnusable):
            await client.start(checkout(Order("tea")))
    assert os.listdir(tmp_path) == []


def test_arguments_of_a_client_are_checked() -> None:
    """A store that only its own process can reach, a negative timeout, an unknown word."""
    with pytest.raises(StoreUnusable):
        WorkflowClient("memory://")
    with pytest.raises(InvalidValue):
        WorkflowClient("store.db", timeout=timedelta(seconds=-1))
    with pytest.raises(InvalidValue):
        WorkflowClient("store.db", no_engine="wait")  # type: ignore[arg-type]
    with pytest.raises(WrongType):
        WorkflowClient(5)  # type: ignore[arg-type]
