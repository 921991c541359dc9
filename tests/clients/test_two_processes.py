"""A client and an engine in two processes: also when the engine is killed, and when the client is forked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from durable import SyncWorkflowClient, WorkflowClient, WorkflowEngine, WorkflowStatus
from tests.clients.flows import WORKFLOWS, Order, by_name, go

CROWD = 20


@contextmanager
def engine(store: Path) -> Iterator[subprocess.Popen[str]]:
    """An engine in another process, which ends in order at the end of the block unless it was killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.clients.flows", str(store)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process
    finally:
        process.communicate()


def killed(process: subprocess.Popen[str]) -> None:
    """Kill a process, and wait until it is gone."""
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_sync_client_of_another_process(tmp_path: Path) -> None:
    """Starts, feeds, watches and reads over the socket; the process of the client has no code and runs nothing."""
    store = tmp_path / "store.db"
    with engine(store), SyncWorkflowClient(store) as client:
        handle = client.start(by_name(order={"sku": "tea"}), id="w")
        client.send_event(go, 4, to="w")
        assert handle.result(timeout=10) == Order("tea", 4)
        assert [update.status for update in handle.watch()] == [WorkflowStatus.SUCCEEDED]
        assert client.runs.count() == 1


@pytest.mark.anyio
async def test_result_outlives_a_killed_engine(tmp_path: Path) -> None:
    """A wait that began at one engine ends at the next, and what was kept in between is done."""
    store = tmp_path / "store.db"
    async with WorkflowClient(store) as client, anyio.create_task_group() as tasks:
        results: list[Order] = []
        with engine(store) as first:
            handle = await client.start(by_name(order={"sku": "tea"}), id="w")

            async def wait() -> None:
                results.append(await handle.result())

            tasks.start_soon(wait)
            await client.query_status("w")
            killed(first)
        await client.send_event(go, 7, to="w")
        with engine(store):
            assert await handle.result(timeout=10) == Order("tea", 7)
            with anyio.fail_after(10):
                while not results:
                    await client.query_status("w")
    assert results == [Order("tea", 7)]


@pytest.mark.anyio
async def test_changes_under_kills_take_effect_once(tmp_path: Path) -> None:
    """Events that are sent while engines are killed again and again arrive, each of them once."""
    store = tmp_path / "store.db"
    async with WorkflowClient(store, timeout=60) as client:
        with engine(store) as process:
            for number in range(CROWD):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(client.send_event, go, number)
                    if number == CROWD // 2:
                        tasks.start_soon(anyio.to_thread.run_sync, killed, process)
        with engine(store):
            payloads = [event.payload for event in await client.events.list()]
    assert sorted(payloads) == list(range(CROWD))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_client_opens_again_after_a_fork(tmp_path: Path) -> None:
    """The child and its parent each use a connection of their own."""
    store = tmp_path / "store.db"
    with engine(store), SyncWorkflowClient(store) as client:
        client.start(by_name(order={"sku": "tea"}), id="parent")
        child = os.fork()
        if not child:
            try:
                client.start(by_name(order={"sku": "tea"}), id="child")
                client.close()
            finally:
                os._exit(0 if client.query_status("child") else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert {run.id for run in client.runs.list()} == {"parent", "child"}


def test_client_is_used_in_one_loop_after_another(tmp_path: Path) -> None:
    """The connection of the first loop is not used in the second."""
    store = tmp_path / "store.db"
    client = WorkflowClient(store)
    with engine(store):
        for number in range(2):
            anyio.run(start, client, str(number))
        assert anyio.run(client.runs.count) == 2
        anyio.run(client.close)


async def start(client: WorkflowClient, id: str) -> None:
    """Start a workflow."""
    await client.start(by_name(order={"sku": "tea"}), id=id)


def test_engine_serves_a_client_where_either_will_do(tmp_path: Path) -> None:
    """A function that takes a client takes an engine too."""

    async def main() -> None:
        async with WorkflowEngine(tmp_path / "store.db", workflows=WORKFLOWS) as running:
            await start(running, "w")
            await running.close()

    anyio.run(main)
