"""Engines that are asked from outside: while they work, while they stop, when they die, and one after the other."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from durable import EngineConfig, SyncWorkflowEngine, WorkflowEngine, WorkflowStatus
from durable.backends.base import Workflows
from durable.backends.sqlite.owner import control_path
from durable.engine.operations import AwaitChange, AwaitEnd, CancelWorkflow, FindWorkflow, ListWorkflows, StartWorkflow
from durable.engine.remote.connection import Connection
from durable.errors import ConnectionLost
from tests.remote.flows import WORK, Work, go, waits, works
from tests.remote.kit import connected, is_socket_alive

START = StartWorkflow(id="w", name="remote.waits", version=1, input='{"number":1}')


def engine(folder: Path, **config: Any) -> WorkflowEngine:
    """An engine on the store in this folder."""
    return WorkflowEngine(folder / "store.db", workflows=[waits, works], config=EngineConfig(**config))


def where(folder: Path) -> str:
    """Where the engine of the store in this folder listens."""
    path = control_path(folder / "store.db")
    assert path is not None
    return path


@pytest.mark.anyio
async def test_workflow_is_driven_from_outside(tmp_path: Path) -> None:
    """A client starts a workflow, lists it, watches it, and gets its end, all over one connection."""
    async with engine(tmp_path) as owner, connected(where(tmp_path)) as client:
        assert (await client.ask(START)).id == "w"
        assert [row.id for row in await client.ask(ListWorkflows(Workflows(limit=10)))] == ["w"]
        seen = await client.ask(AwaitChange("w"))
        ends: list[Any] = []

        async def wait(operation: Any) -> None:
            ends.append(await client.ask(operation))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, AwaitEnd("w"))
            tasks.start_soon(wait, AwaitChange("w", seen))
            found = await client.ask(FindWorkflow("w"))
            assert found is not None
            await owner.send_event(go, 2, to="w")
        assert {end.status for end in ends} == {WorkflowStatus.SUCCEEDED}
        assert (await client.ask(AwaitEnd("w"))).result == "3"


@pytest.mark.anyio
async def test_list_of_many_rows_arrives_whole(tmp_path: Path) -> None:
    """A list whose encoding takes several turns of the loop has all its rows, in order."""
    async with engine(tmp_path) as owner, connected(where(tmp_path)) as client:
        for number in range(300):
            await owner.start(waits(number), id=f"w{number:03}", tags=["t" * 200])
        rows = await client.ask(ListWorkflows(Workflows(limit=300)))
        assert [row.id for row in rows] == [f"w{number:03}" for number in range(300)]
        assert await client.ask(ListWorkflows(Workflows(limit=300, tag="none"))) == []


@pytest.mark.anyio
async def test_shutdown_sends_clients_to_the_next_owner(tmp_path: Path) -> None:
    """Open asks learn that the engine stops, and the same store is reached again through its next engine."""
    lost: list[str] = []

    async def wait(client: Connection) -> None:
        with pytest.raises(ConnectionLost) as caught:
            await client.ask(AwaitEnd("w"))
        lost.append(caught.value.problem)

    async with engine(tmp_path) as owner:
        first = where(tmp_path)
        async with connected(first) as client:
            await client.ask(START)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait, client)
                await client.ask(FindWorkflow("w"))
                await owner.shutdown()
    assert lost == ["the engine is shutting down"]
    assert control_path(tmp_path / "store.db") is None
    async with engine(tmp_path), connected(where(tmp_path)) as client:
        assert where(tmp_path) != first
        assert await client.ask(CancelWorkflow("w", None))


@pytest.mark.anyio
async def test_clients_leave_before_the_drain(tmp_path: Path) -> None:
    """At a shutdown, clients are sent away first: none waits for the activities that are still running."""
    WORK.append(work := Work())
    async with engine(tmp_path) as owner, connected(where(tmp_path)) as client:
        await owner.start(works(), id="w")
        await work.has_begun.wait()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(owner.shutdown, 20)
            with pytest.raises(ConnectionLost):
                await client.ask(AwaitEnd("w"))
            work.may_end.set()
    assert WORK.pop() is work


@pytest.mark.anyio
async def test_engine_without_control_has_no_socket(tmp_path: Path) -> None:
    """`control=False` opens nothing, and neither does a store that is not a file."""
    async with engine(tmp_path, control=False):
        assert control_path(tmp_path / "store.db") == ""
        assert not any("control" in name for name in os.listdir(tmp_path))
    async with WorkflowEngine("memory://", workflows=[waits]) as owner:
        assert await owner.query_status("w") is None


@pytest.mark.anyio
async def test_socket_that_cannot_be_opened_does_not_stop_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If there is no place for a socket, the engine says so once, with every reason, and works."""
    (tmp_path / "store.db-control").write_text("in the way")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("long" * 30)))
    with caplog.at_level(logging.WARNING):
        async with engine(tmp_path) as owner:
            await owner.start(waits(1), id="w")
            assert control_path(tmp_path / "store.db") == ""
    (warning,) = [each.getMessage() for each in caplog.records]
    assert "other processes cannot reach this engine" in warning
    assert "only this user can enter" in warning
    assert "more than 100 bytes" in warning


@pytest.mark.anyio
async def test_engine_leaves_no_file_or_task(tmp_path: Path) -> None:
    """Engines that were asked, also by clients that left in the middle, leave no descriptor, task or socket."""

    async def once() -> None:
        async with engine(tmp_path), connected(where(tmp_path)) as client:
            await client.ask(START)
            stray = await Connection.open(where(tmp_path), 10)
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(stray.ask, AwaitEnd("w"))
                    await client.ask(FindWorkflow("w"))
                    scope.cancel()
            await stray.aclose()

    await once()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await once()
    assert len(os.listdir("/proc/self/fd")) <= before
    assert os.listdir(tmp_path / "store.db-control") == []


async def _tasks_after(folder: Path) -> set[str]:
    async with engine(folder), connected(where(folder)) as client:
        await client.ask(START)
    return {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}


def test_engine_leaves_no_asyncio_task(tmp_path: Path) -> None:
    """After the engine is closed, none of its tasks is left in the loop."""
    assert asyncio.run(_tasks_after(tmp_path)) == set()


def test_sync_engine_is_asked_too(tmp_path: Path) -> None:
    """An engine whose loop runs in a thread of its own is reached in the same way."""

    async def ask() -> None:
        async with connected(where(tmp_path)) as client:
            assert (await client.ask(START)).id == "w"

    with SyncWorkflowEngine(tmp_path / "store.db", workflows=[waits]):
        anyio.run(ask)


_OWN = """
import anyio, os, sys
from durable import WorkflowEngine
from tests.remote.flows import waits

async def main():
    async with WorkflowEngine(sys.argv[1], workflows=[waits]):
        print("open", flush=True)
        if await anyio.to_thread.run_sync(sys.stdin.readline) == "fork\\n" and os.fork() == 0:
            sys.stdin.read()
            os._exit(0)
        print("ready", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process with an open engine."""
    command = [sys.executable, "-W", "ignore", "-c", _OWN, str(tmp_path / "store.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process
        process.kill()


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["plain", "fork"])
async def test_killed_engine_is_noticed(tmp_path: Path, owner: subprocess.Popen[str], kind: str) -> None:
    """When an engine is killed, its clients notice, also if a forked child lives on. The next one takes over."""
    assert owner.stdin is not None
    assert owner.stdout is not None
    dead = where(tmp_path)
    async with connected(dead) as client:
        await client.ask(START)
        owner.stdin.write(f"{kind}\n")
        owner.stdin.flush()
        assert await anyio.to_thread.run_sync(owner.stdout.readline) == "ready\n"
        owner.send_signal(signal.SIGKILL)
        with anyio.fail_after(10), pytest.raises(ConnectionLost):
            await client.ask(AwaitEnd("w"))
    owner.wait()
    assert not is_socket_alive(dead)
    async with engine(tmp_path), connected(where(tmp_path)) as client:
        found = await client.ask(FindWorkflow("w"))
        assert found is not None
        assert found.status is WorkflowStatus.SUSPENDED
    assert Path(dead).name not in os.listdir(tmp_path / "store.db-control")
