"""What lists and descriptions show: errors, progress, family, and which activities run."""

from __future__ import annotations

import threading

import anyio
import pytest

from durable import (
    Durable,
    EngineConfig,
    Event,
    Retry,
    WorkflowEngine,
    WorkflowFailed,
    activity,
    gather,
    publish,
    spawn,
    workflow,
)
from tests.scenarios.kit import SOON, Store

pytestmark = pytest.mark.anyio
go = Event[int]("views-go")


@workflow(name="views-child")
def child(number: int) -> Durable[int]:
    """Publishes and waits."""
    publish({"number": number})
    return (yield from go.wait())


@workflow(name="views-parent")
def parent(count: int, kept: str = "kept") -> Durable[None]:
    """Has children that it awaits and one that it does not await."""
    yield from spawn(child(0), id=kept)
    yield from gather(*(child(number) for number in range(1, count)))


@workflow(name="views-failing")
def failing(message: str) -> Durable[None]:
    """Fails."""
    yield from gather()
    raise LookupError(message)


async def test_summaries_tell_error_parent_and_progress(store: Store) -> None:
    """Like the description, a list shows why a run failed, its parent, and what it has published."""
    async with WorkflowEngine(store, workflows=[parent, child, failing]) as engine:
        await engine.start(parent(2), id="p")
        for id, message in (("bad", "no such order"), ("long", "x" * 1000)):
            await engine.start(failing(message), id=id)
            with pytest.raises(WorkflowFailed):
                await engine.handle(id).result(timeout=SOON)
        listed = {run.id: run for run in await engine.runs.list()}
        assert listed["bad"].error == "builtins.LookupError: no such order"
        assert len(listed["long"].error or "") == 200
        assert (listed["p"].error, listed["p"].parent, listed["p"].progress) == (None, None, None)
        assert (listed["kept"].parent, listed["kept"].progress) == ("p", {"number": 0})
        assert (listed["p/1.0.0"].parent, listed["p/1.0.0"].progress) == ("p", {"number": 1})
        for id, summary in listed.items():
            assert (await engine.runs.describe(id)).summary == summary


async def test_description_names_the_newest_children(store: Store) -> None:
    """The children of a run are listed, the newest first and a hundred at most, even if they have ended."""
    async with WorkflowEngine(store, workflows=[parent, child]) as engine:
        await engine.start(parent(2), id="p")
        await engine.send_event(go, 1, to="kept")
        await engine.handle("kept").result(timeout=SOON)
        assert (await engine.runs.describe("p")).children == ("p/1.0.0", "kept")
        assert (await engine.runs.describe("kept")).children == ()
        await engine.start(parent(150, "other"), id="q")
        many = (await engine.runs.describe("q")).children
        assert (len(many), many[0], many[-1]) == (100, "q/1.148.0", "q/1.49.0")


async def test_description_tells_running_from_queued(store: Store) -> None:
    """Of two activities only the one that began is running: the other waits for a worker or a thread."""
    began, finish = anyio.Event(), anyio.Event()
    blocked, release = threading.Event(), threading.Event()

    @activity(name="views-slow")
    async def slow() -> None:
        began.set()
        await finish.wait()

    @activity(name="views-thread", retry=Retry.never())
    def thread() -> None:
        blocked.set()
        assert release.wait(SOON)

    @workflow(name="views-busy")
    def busy(in_threads: bool) -> Durable[None]:
        yield from gather(*((thread(), thread()) if in_threads else (slow(), slow())))

    async with WorkflowEngine(store, workflows=[busy], config=EngineConfig(max_running_activities=1)) as engine:
        handle = await engine.start(busy(False), id="a")
        await began.wait()
        assert sorted(wait.is_running for wait in (await engine.runs.describe("a")).waits) == [False, True]
        finish.set()
        await handle.result(timeout=SOON)
    async with WorkflowEngine(store, workflows=[busy], config=EngineConfig(max_threads=1)) as engine:
        handle = await engine.start(busy(True), id="b")
        await anyio.to_thread.run_sync(blocked.wait, SOON)
        running = [(wait.position, wait.is_running) for wait in (await engine.runs.describe("b")).waits]
        assert sorted(is_running for _, is_running in running) == [False, True]
        release.set()
        await handle.result(timeout=SOON)
        assert (await engine.runs.describe("b")).waits == ()
