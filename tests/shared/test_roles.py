"""Two engines that share a store: what each of them does, and how one follows the other."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread
import pytest

from durable import (
    EngineClosed,
    EngineConfig,
    EngineForked,
    EngineUnreachable,
    InvalidValue,
    OperationMisused,
    RecoveryReport,
    StorageUnavailable,
    StoreInUse,
    StoreUnusable,
    SyncWorkflowEngine,
    WorkflowEngine,
    WorkflowStatus,
)
from durable.backends.base import Opened
from durable.backends.sqlite import SqliteBackend, owner
from durable.engine.api import standby
from tests.clients.test_lost_answers import Forgetful
from tests.shared.flows import WORKFLOWS, Gate, gated, gates, go, waits
from tests.shared.kit import engine


@asynccontextmanager
async def pair(folder: Path, **settings: Any) -> AsyncIterator[tuple[WorkflowEngine, WorkflowEngine]]:
    """The owner, and an engine that stands by with these settings."""
    async with engine(folder / "store.db") as first, engine(folder / "store.db", **settings) as second:
        yield first, second


@pytest.mark.anyio
async def test_follower_has_every_call(tmp_path: Path) -> None:
    """Typed handles, events, lists, progress: as at the owner, which runs the workflow."""
    async with pair(tmp_path) as (first, second):
        assert (first.is_owner, second.is_owner) == (True, False)
        handle = await second.start(waits(1), id="w")
        await second.send_event(go, 2, to="w")
        assert await handle.result(timeout=10) == 3
        assert [update.status async for update in second.handle("w").watch()] == [WorkflowStatus.SUCCEEDED]
        assert [run.id for run in await first.runs.list()] == ["w"]
        assert await second.query_result("w") == 3
        assert (await second.runs.describe("w")).waits == ()


@pytest.mark.anyio
async def test_follower_has_nothing_to_recover(tmp_path: Path) -> None:
    """There `recover()` does nothing, and `recovery` is None until it takes over."""
    async with pair(tmp_path) as (first, second):
        assert await second.recover() == RecoveryReport()
        assert second.recovery is None
        await first.shutdown()
        await second.start(waits(), id="w")
        assert second.recovery is not None


@pytest.mark.anyio
async def test_orderly_shutdown_hands_over(tmp_path: Path) -> None:
    """A wait that began at the old owner ends at the new one, which answers its own callers itself."""
    results: list[int] = []

    async def wait() -> None:
        results.append(await second.handle("w", waits).result())

    async with pair(tmp_path) as (first, second), anyio.create_task_group() as tasks:
        await second.start(waits(1), id="w")
        tasks.start_soon(wait)
        await second.query_status("w")
        await first.shutdown()
        await second.send_event(go, 2, to="w")
        assert second.is_owner
    assert results == [3]


@pytest.mark.anyio
async def test_owner_answers_others_while_its_activities_drain(tmp_path: Path) -> None:
    """Its own callers are refused. What follows from the activity that it finishes runs at the next owner."""
    gates["g"], gates["g-2"] = Gate(), Gate()
    gates["g-2"].opened.set()
    async with pair(tmp_path) as (first, second), anyio.create_task_group() as tasks:
        handle = await first.start(gated("g"), id="g")
        await gates["g"].entered.wait()
        tasks.start_soon(first.shutdown)
        with anyio.fail_after(10):
            while first.is_owner:
                await second.query_status("g")
        with pytest.raises(EngineClosed):
            await handle.status()
        assert not second.is_owner
        await second.start(waits(), id="w")
        assert await second.query_status("w") is WorkflowStatus.SUSPENDED
        gates["g"].opened.set()
        assert await second.handle("g", gated).result(timeout=10) == "gg-2"
        assert second.is_owner


@pytest.mark.anyio
async def test_request_that_the_last_owner_decided_is_not_decided_again(tmp_path: Path) -> None:
    """Its answer was lost with the owner: the caller, who is the new owner by now, gets the first answer."""
    async with anyio.create_task_group() as tasks, engine(tmp_path / "store.db") as first:
        socket = Forgetful(first, tasks, losses=1, comes_back=False)
        async with engine(tmp_path / "store.db") as second:
            async with anyio.create_task_group() as callers:
                callers.start_soon(second.send_event, go, 1)
                await socket.lost.wait()
                await first.shutdown()
            assert [event.payload for event in await second.events.list()] == [1]
            assert second.is_owner
            assert len(socket.request_ids) == 1


@pytest.mark.anyio
async def test_follower_makes_backups(tmp_path: Path) -> None:
    """The copy has what the owner has committed; and the follower can still take over."""
    async with pair(tmp_path) as (first, second):
        await first.start(waits(1), id="w")
        await second.backup(tmp_path / "copy.db")
        async with engine(tmp_path / "copy.db") as copy:
            assert [run.id for run in await copy.runs.list()] == ["w"]
        await first.shutdown()
        await second.backup(tmp_path / "copy.db", overwrite=True)
        await second.send_event(go, 1, to="w")
        assert second.is_owner


@pytest.mark.anyio
async def test_engine_that_does_not_share_may_be_followed(tmp_path: Path) -> None:
    """It listens, so an engine that shares can ask it, and takes over when it has gone."""
    async with engine(tmp_path / "store.db", shared=False) as first, engine(tmp_path / "store.db") as second:
        await second.start(waits(), id="w")
        await first.shutdown()
        await second.send_event(go, 1, to="w")
        assert second.is_owner


@pytest.mark.anyio
async def test_owner_without_a_socket_cannot_be_followed(tmp_path: Path) -> None:
    """The refusal says why; that of an engine that does not share names the option."""
    config = EngineConfig(control=False)
    async with engine(tmp_path / "store.db", shared=False, config=config):
        with pytest.raises(StoreInUse, match="takes no calls of other processes"):
            async with engine(tmp_path / "store.db"):
                pass
        with pytest.raises(StoreInUse, match="shared=True"):
            async with engine(tmp_path / "store.db", shared=False):
                pass


def test_store_that_cannot_be_shared_is_refused() -> None:
    """One in memory, and an engine that serves no socket."""
    with pytest.raises(StoreUnusable, match="shared=True"):
        WorkflowEngine("memory://", shared=True)
    with pytest.raises(InvalidValue, match="control=False"):
        WorkflowEngine("store.db", shared=True, config=EngineConfig(control=False))


@pytest.mark.anyio
async def test_follower_that_has_left_refuses_calls(tmp_path: Path) -> None:
    """Also those that wait; the owner does not notice, and the follower may come back."""
    refusals: list[EngineClosed] = []

    async def wait() -> None:
        with pytest.raises(EngineClosed, match="shut down") as refused:
            await second.handle("w").result()
        refusals.append(refused.value)

    async with engine(tmp_path / "store.db") as first:
        second = engine(tmp_path / "store.db")
        with pytest.raises(EngineClosed, match="not open yet"):
            await second.query_status("w")
        async with anyio.create_task_group() as tasks, second:
            await second.start(waits(), id="w")
            tasks.start_soon(wait)
            await second.query_status("w")
        assert len(refusals) == 1
        async with second:
            await second.shutdown()
            await second.shutdown()
            with pytest.raises(EngineClosed, match="shut down"):
                await second.query_status("w")
        async with second:
            assert await second.query_status("w") is WorkflowStatus.SUSPENDED
            with pytest.raises(OperationMisused, match="already open"):
                await second.__aenter__()
        assert first.is_owner


@pytest.mark.anyio
async def test_cancelled_wait_for_an_owner_leaves_nothing(tmp_path: Path) -> None:
    """The store has an owner that cannot be asked yet: whoever waits may give up, and come back."""
    store = tmp_path / "store.db"
    held = owner.take(str(store))
    second = engine(store)
    with anyio.move_on_after(0.2) as scope:
        await second.__aenter__()
    assert scope.cancelled_caught
    held.release()
    async with second:
        assert second.is_owner


@pytest.mark.anyio
async def test_entering_waits_for_an_owner_that_opens(tmp_path: Path) -> None:
    """And owns the store if that one goes away instead."""
    store = tmp_path / "store.db"
    held = owner.take(str(store))

    async def enter(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        task_status.started()
        async with engine(store) as second:
            assert second.is_owner

    async with anyio.create_task_group() as tasks:
        await tasks.start(enter)
        await anyio.wait_all_tasks_blocked()
        held.release()


class Weak(SqliteBackend):
    """A store that cannot be opened when its owner has gone, but the next time."""

    refusals = 1

    def open(self, incarnation: str) -> Opened:
        """Refuse to take a store that is free."""
        if not self.is_taken() and self.refusals:
            self.refusals -= 1
            raise StorageUnavailable("the disk is full")
        return super().open(incarnation)


@pytest.mark.anyio
async def test_takeover_that_fails_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log says why the store has no owner, and a call waits until it has one."""
    async with engine(tmp_path / "store.db") as first, engine(Weak(tmp_path / "store.db")) as second:
        with caplog.at_level(logging.ERROR):
            await first.shutdown()
            assert await second.query_status("w") is None
    assert "cannot take it over: the store is unavailable: the disk is full" in caplog.text


@pytest.mark.anyio
async def test_owner_without_the_code_parks_and_the_next_one_continues(tmp_path: Path) -> None:
    """Processes of one service may have different code: the usual rules apply after a takeover."""
    async with pair(tmp_path, workflows=[gated]) as (first, second):
        await second.start(waits(1), id="w")
        await first.shutdown()
        await second.send_event(go, 2, to="w")
        assert await second.query_status("w") is WorkflowStatus.PARKED
        async with engine(tmp_path / "store.db") as third:
            await second.shutdown()
            assert await third.handle("w", waits).result(timeout=10, wait_if_parked=True) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_follower_does_not_survive_a_fork(tmp_path: Path) -> None:
    """As no engine does."""

    async def main() -> None:
        async with pair(tmp_path) as (_, second):
            child = os.fork()
            if not child:
                code = 1
                try:
                    await second.query_status("w")
                except EngineForked:
                    code = 0
                finally:
                    os._exit(code)
            assert await anyio.to_thread.run_sync(lambda: os.waitpid(child, 0)[1]) == 0
            assert await second.query_status("w") is None

    anyio.run(main)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_engine_that_was_made_before_a_fork_is_entered_after_it(tmp_path: Path) -> None:
    """As in the workers of a server that loads the application first and forks then."""
    made = SyncWorkflowEngine(tmp_path / "store.db", workflows=WORKFLOWS, shared=True)
    with SyncWorkflowEngine(tmp_path / "store.db", workflows=WORKFLOWS, shared=True) as first:
        child = os.fork()
        if not child:
            code = 1
            try:
                with made:
                    code = 1 if made.is_owner or made.start(waits(1), id="child").id != "child" else 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert first.is_owner
        assert first.query_status("child") is WorkflowStatus.SUSPENDED


@pytest.mark.anyio
async def test_owner_that_cannot_be_asked_is_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Entering gives up waiting, a call raises; and when that owner goes away, all is well."""
    monkeypatch.setattr(standby, "TIMEOUT", 0.1)
    held = owner.take(str(tmp_path / "store.db"))
    with caplog.at_level(logging.WARNING):
        async with engine(tmp_path / "store.db") as second:
            assert "cannot be asked yet" in caplog.text
            with pytest.raises(EngineUnreachable, match="has not recorded a socket"):
                await second.start(waits(), id="w")
            monkeypatch.setattr(standby, "TIMEOUT", 30.0)
            held.release()
            await second.start(waits(), id="w")
            assert second.is_owner


def test_follower_is_used_in_its_own_loop(tmp_path: Path) -> None:
    """In another one no answer would arrive."""
    second = engine(tmp_path / "store.db")

    async def main() -> None:
        async with engine(tmp_path / "store.db"), second:
            with pytest.raises(OperationMisused, match="another event loop"):
                await anyio.to_thread.run_sync(anyio.run, second.query_status, "w")

    anyio.run(main)


def test_sync_engines_share_a_store(tmp_path: Path) -> None:
    """Their calls wait while one takes over from the other."""
    store, settings = tmp_path / "store.db", {"workflows": WORKFLOWS, "shared": True}
    with SyncWorkflowEngine(store, **settings) as first, SyncWorkflowEngine(store, **settings) as second:  # type: ignore[arg-type]
        assert (first.is_owner, second.is_owner) == (True, False)
        handle = second.start(waits(1), id="w")
        first.shutdown()
        second.send_event(go, 2, to="w")
        assert handle.result(timeout=10) == 3
        assert second.is_owner
