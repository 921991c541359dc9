"""The engine goes away between a change and its answer: the client repeats the request, and it takes effect once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

from durable import (
    EngineConfig,
    EngineNotRunning,
    EngineUnreachable,
    WorkflowClient,
    WorkflowEngine,
    WorkflowNotFound,
    WorkflowStatus,
)
from durable.engine.host.threads import make_threads
from durable.engine.operations import Operation
from durable.engine.remote.address import listen, places
from durable.engine.remote.server import ControlServer
from tests.clients.flows import WORKFLOWS, Order, checkout, go

pytestmark = pytest.mark.anyio


class Forgetful:
    """The socket of an engine that loses the connection instead of answering, as often as it is told."""

    def __init__(
        self, engine: WorkflowEngine, tasks: anyio.abc.TaskGroup, losses: int, *, comes_back: bool = True
    ) -> None:
        self._engine = engine
        self._tasks = tasks
        self._losses = losses
        self._comes_back = comes_back
        # Set with the first loss.
        self.lost = anyio.Event()
        self.request_ids: list[str | None] = []
        self._server = self._serve()

    def _serve(self) -> ControlServer:
        """Listen at a new socket, and announce it."""
        core = self._engine._core
        held = core.backend.held  # type: ignore[attr-defined]
        name = f"s{len(self.request_ids)}"
        server = ControlServer(
            listen(places(held.path), name),
            self._answer,
            core.registry,
            core.codec,
            make_threads(),
            max_payload_bytes=1 << 20,
        )
        held.announce(server.path)
        self._tasks.start_soon(server.run)
        return server

    async def _answer(self, operation: Operation[Any], request_id: str | None) -> Any:
        self.request_ids.append(request_id)
        try:
            return await self._engine._core.answer(operation, request_id)
        finally:
            if self._losses:
                self._losses -= 1
                self._server.stop()
                if self._comes_back:
                    self._server = self._serve()
                self.lost.set()
                await anyio.lowlevel.checkpoint()

    def stop(self) -> None:
        """Serve nobody any more."""
        self._server.stop()


@asynccontextmanager
async def forgetful(path: Path, losses: int) -> AsyncIterator[tuple[WorkflowClient, Forgetful, WorkflowEngine]]:
    """An engine whose socket loses connections, and a client of it."""
    config = EngineConfig(control=False)
    async with (
        WorkflowEngine(path, workflows=WORKFLOWS, config=config) as engine,
        anyio.create_task_group() as tasks,
        WorkflowClient(path) as client,
    ):
        socket = Forgetful(engine, tasks, losses)
        yield client, socket, engine
        socket.stop()


async def test_change_whose_answer_is_lost_takes_effect_once(tmp_path: Path) -> None:
    """Every try has the same request id, and the last one gets the first answer."""
    async with forgetful(tmp_path / "store.db", losses=3) as (client, socket, engine):
        await client.send_event(go, 1)
        assert len(socket.request_ids) == 4
        assert len(set(socket.request_ids)) == 1
        assert len(await engine.events.list()) == 1


async def test_refusal_whose_answer_is_lost_stays_a_refusal(tmp_path: Path) -> None:
    """Also if the request would be accepted by now."""
    async with forgetful(tmp_path / "store.db", losses=1) as (client, socket, _):
        with pytest.raises(WorkflowNotFound):
            await client.send_event(go, 1, to="w")
        assert len(set(socket.request_ids)) == 1


async def test_read_is_asked_again(tmp_path: Path) -> None:
    """It needs no request id."""
    async with forgetful(tmp_path / "store.db", losses=1) as (client, socket, _):
        assert await client.query_status("w") is None
        assert socket.request_ids == [None, None]


async def test_engine_that_cannot_be_asked_is_unreachable(tmp_path: Path) -> None:
    """It owns the store and serves no socket: changes time out, reads are answered from the file."""
    path = tmp_path / "store.db"
    async with WorkflowEngine(path, workflows=WORKFLOWS, config=EngineConfig(control=False)) as engine:
        await engine.start(checkout(Order("tea")), id="w")
        async with WorkflowClient(path, timeout=0.2) as client:
            with pytest.raises(EngineUnreachable) as unreachable:
                await client.send_event(go, 1, to="w")
            assert isinstance(unreachable.value, TimeoutError)
            with pytest.raises(EngineUnreachable):
                await client.cancel("w")
            assert await client.query_status("w") is WorkflowStatus.SUSPENDED


async def test_answer_of_an_engine_that_has_gone_is_found_in_the_file(tmp_path: Path) -> None:
    """It had decided the cancel, and ended before its answer arrived: the client knows what happened."""
    path = tmp_path / "store.db"
    answers: list[bool] = []

    async def cancel(client: WorkflowClient) -> None:
        answers.append(await client.cancel("w"))

    async with WorkflowClient(path) as client:
        async with anyio.create_task_group() as tasks:
            config = EngineConfig(control=False)
            async with WorkflowEngine(path, workflows=WORKFLOWS, config=config) as engine:
                await engine.start(checkout(Order("tea")), id="w")
                socket = Forgetful(engine, tasks, 1, comes_back=False)
                tasks.start_soon(cancel, client)
                await socket.lost.wait()
        assert answers == [True]
        with pytest.raises(EngineNotRunning):
            await client.cancel("w")
