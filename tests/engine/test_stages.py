"""The stages of an engine: which may follow which, and how calls are answered in each."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeVar

import anyio
import pytest

from durable import Durable, DurableError, EngineClosed, StoreUnusable, WorkflowEngine, activity, gather, workflow
from durable.backends.base import Batch, Opened, Query, Timers
from durable.backends.memory import MemoryBackend
from durable.engine.api.core import TRANSITIONS, Core, Stage
from durable.errors import InvariantViolated, OperationMisused
from tests.scenarios.kit import SOON, refusing

pytestmark = pytest.mark.anyio
R = TypeVar("R")


class Store(MemoryBackend):
    """A store that waits or fails where the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.may_open = threading.Event()
        self.may_open.set()
        self.is_usable = True
        self.is_lost = False
        # Queries of this type find the store lost.
        self.is_lost_for: type[Query[Any]] | None = None

    def open(self, incarnation: str) -> Opened:
        """Wait, then open or refuse."""
        self.may_open.wait(SOON)
        if not self.is_usable:
            raise StoreUnusable("test", "not usable")
        return super().open(incarnation)

    def commit(self, batch: Batch) -> None:
        """Commit, or be lost."""
        if self.is_lost:
            raise StoreUnusable("test", "lost")
        super().commit(batch)

    def find(self, query: Query[R]) -> Sequence[R]:
        """Answer, or be lost."""
        if self.is_lost or (self.is_lost_for is not None and isinstance(query, self.is_lost_for)):
            raise StoreUnusable("test", "lost")
        return super().find(query)


class Busy:
    """Two activities that end when the test says so."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.may_end = [anyio.Event(), anyio.Event()]

        @activity(name="stages.busy")
        async def work(number: int) -> None:
            if number == 1:
                self.begun.set()
            await self.may_end[number].wait()

        @workflow(name="stages.work")
        def body() -> Durable[None]:
            yield from gather(work(0), work(1))

        self.body = body


def core(engine: WorkflowEngine) -> Core:
    """The state machine of an engine."""
    return engine._core


async def refusal(engine: WorkflowEngine) -> DurableError:
    """The error that a call gets."""
    with pytest.raises(DurableError) as caught:
        await engine.query_status("a")
    return caught.value


async def lose(engine: WorkflowEngine, store: Store) -> None:
    """Let the store be lost, and let the engine notice."""
    store.is_lost = True
    with anyio.fail_after(SOON), suppress(StoreUnusable):
        while True:
            await engine.runs.list()


async def reach(engine: WorkflowEngine, stage: Stage) -> None:
    """Wait until the engine reaches this stage."""
    with anyio.fail_after(SOON):
        while core(engine).stage is not stage:
            await anyio.lowlevel.checkpoint()


def test_table_knows_every_stage() -> None:
    """Each stage can be entered and left, except FORKED, which is only observed."""
    reached = {stage for stages in TRANSITIONS.values() for stage in stages}
    assert set(TRANSITIONS) == set(Stage)
    assert reached == {stage for stage in Stage if TRANSITIONS[stage]} == set(Stage) - {Stage.FORKED}


async def test_life_of_an_engine() -> None:
    """An engine is opened, drained and closed, and may be opened again."""
    engine = WorkflowEngine(Store())
    stages = [core(engine).stage]
    for id in ("a", "b"):
        busy = Busy()
        async with engine, anyio.create_task_group() as tasks:
            stages.append(core(engine).stage)
            await engine.start(busy.body(), id=id)
            await busy.begun.wait()
            tasks.start_soon(engine.shutdown)
            await refusing(engine)
            stages.append(core(engine).stage)
            for event in busy.may_end:
                event.set()
        stages.append(core(engine).stage)
    again = [Stage.OPEN, Stage.DRAINING, Stage.CLOSED]
    assert stages == [Stage.NEW, *again, *again]


async def test_engine_that_is_opening() -> None:
    """Calls are refused until the engine is open, and it cannot be entered twice."""
    store = Store()
    store.may_open.clear()
    engine = WorkflowEngine(store)

    async def serve() -> None:
        async with engine:
            pass

    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            await reach(engine, Stage.OPENING)
            message = str(await refusal(engine))
            with pytest.raises(OperationMisused, match="already open"):
                core(engine).check_closed()
            store.may_open.set()
    assert "not open yet" in message
    assert core(engine).stage is Stage.CLOSED


async def test_store_that_cannot_be_opened() -> None:
    """An engine whose store cannot be opened is as new, and may be entered again."""
    store = Store()
    store.is_usable = False
    engine = WorkflowEngine(store)
    with pytest.raises(StoreUnusable, match="not usable"):
        async with engine:
            pass
    assert core(engine).stage is Stage.NEW
    assert "not open yet" in str(await refusal(engine))
    store.is_usable = True
    async with engine:
        assert core(engine).stage is Stage.OPEN


async def test_store_that_is_lost_as_soon_as_it_is_opened() -> None:
    """Entering raises the store's error even if the thread ends before the loop learns that it opened."""
    others = set(threading.enumerate())
    store = Store()
    store.is_lost_for = Timers
    store.may_open.clear()
    engine = WorkflowEngine(store)

    async def hold_the_loop() -> None:
        await reach(engine, Stage.OPENING)
        (thread,) = [thread for thread in set(threading.enumerate()) - others if thread.name == "durable-coordinator"]
        store.may_open.set()
        thread.join(SOON)

    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold_the_loop)
            with pytest.raises(StoreUnusable, match="lost"):
                async with engine:
                    pass
    assert core(engine).stage in (Stage.NEW, Stage.CLOSED)


async def test_store_that_is_lost_while_the_engine_is_open() -> None:
    """Calls get the store's error, even after the block. Then the engine may be opened again."""
    store = Store()
    async with WorkflowEngine(store) as engine:
        await lose(engine, store)
        assert core(engine).stage is Stage.FAILED
        assert isinstance(await refusal(engine), StoreUnusable)
    assert core(engine).stage is Stage.CLOSED
    assert isinstance(await refusal(engine), StoreUnusable)
    store.is_lost = False
    async with engine:
        assert await engine.query_status("a") is None
    assert isinstance(await refusal(engine), EngineClosed)


async def test_store_that_is_lost_while_activities_drain() -> None:
    """The drain finishes anyway, and calls get the store's error."""
    busy, store = Busy(), Store()
    with anyio.fail_after(SOON):
        async with WorkflowEngine(store) as engine, anyio.create_task_group() as tasks:
            await engine.start(busy.body(), id="a")
            await busy.begun.wait()
            tasks.start_soon(engine.shutdown)
            await refusing(engine)
            store.is_lost = True
            busy.may_end[0].set()
            while not isinstance(await refusal(engine), StoreUnusable):
                await anyio.lowlevel.checkpoint()
            assert core(engine).stage is Stage.DRAINING
            busy.may_end[1].set()
    assert core(engine).stage is Stage.CLOSED


async def test_transition_that_is_not_in_the_table() -> None:
    """A transition that is not in the table is a bug of ours, and the engine stays open."""
    async with WorkflowEngine(Store()) as engine, anyio.create_task_group() as tasks:
        with pytest.raises(InvariantViolated, match="open to opening"):
            await core(engine).open(tasks, bool)
        assert await engine.query_status("a") is None
