"""After a restart: which workflows continue, which are left alone, and which are parked."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from durable import (
    Durable,
    EngineConfig,
    Event,
    ParkReason,
    Queued,
    RecoveryReport,
    WorkflowCancelled,
    WorkflowEngine,
    WorkflowStatus,
    activity,
    call,
    sleep,
    workflow,
)
from tests.scenarios.kit import SOON, Store, query, waiting

pytestmark = pytest.mark.anyio
answer = Event[int]("recovery-answer")


@workflow(name="recovery-wait")
def wait_for_answer() -> Durable[int]:
    """Wait for a number."""
    return (yield from answer.wait())


@workflow(name="recovery-sleep")
def sleep_long() -> Durable[None]:
    """Sleep for 300 days."""
    yield from sleep(timedelta(days=300))


async def test_recover_may_be_repeated(store: Store) -> None:
    """Work that already runs is left alone: no activity begins twice, however often recovery is requested."""
    started, gate, runs = anyio.Event(), anyio.Event(), list[int]()

    @activity
    async def work() -> int:
        runs.append(1)
        started.set()
        await gate.wait()
        return 7

    @workflow(name="recovered")
    def body() -> Durable[int]:
        return (yield from work())

    async with WorkflowEngine(store, workflows=[body]) as engine:
        await engine.start(body(), id="a")
        await started.wait()
        await engine.shutdown(drain=0)
    started = anyio.Event()
    async with WorkflowEngine(store, workflows=[body]) as engine:
        await started.wait()
        for _ in range(5):
            assert await engine.recover() == RecoveryReport()
        gate.set()
        assert await engine.handle("a").result(timeout=SOON) == 7
        assert await engine.recover() == RecoveryReport()
    assert runs == [1, 1]


async def test_recovery_is_lazy(file: Path) -> None:
    """Two thousand workflows that wait for events or far timers are not loaded at the start; an event loads its own."""
    async with WorkflowEngine(file) as engine, anyio.create_task_group() as tasks:

        async def start(first: int) -> None:
            for number in range(first, first + 100):
                await engine.start(wait_for_answer() if number % 2 else sleep_long(), id=f"w{number}")

        for first in range(0, 2000, 100):
            tasks.start_soon(start, first)
    async with WorkflowEngine(file) as engine:
        coordinator = engine._core.check_open().coordinator
        assert len(coordinator.state.loaded) == 0
        await engine.send_event(answer, 5, to="w1001")
        assert await engine.handle("w1001").result(timeout=SOON) == 5
        assert len(coordinator.state.loaded) <= 1
        assert await engine.runs.count(status=WorkflowStatus.SUSPENDED) == 1999


async def test_few_bodies_in_memory_are_enough(store: Store) -> None:
    """With room for two bodies a hundred workflows make progress; each body is rebuilt when it is needed."""

    @workflow(name="three-answers")
    def body() -> Durable[int]:
        total = 0
        for _ in range(3):
            total += yield from answer.wait()
        return total

    async with WorkflowEngine(store, config=EngineConfig(max_loaded_workflows=2)) as engine:
        for number in range(100):
            await engine.start(body(), id=f"w{number}")
        for number in (1, 10, 100):
            for owner in range(100):
                await engine.send_event(answer, number, to=f"w{owner}")
        for number in range(100):
            assert await engine.handle(f"w{number}").result(timeout=SOON) == 111


async def test_parked_workflow_goes_on_when_the_code_fits_again(store: Store) -> None:
    """Code that asks for something else parks a run with a diff; nothing is lost, and the right code finishes it."""

    def define(first_step: str) -> WorkflowEngine:
        @workflow(name="changing")
        def body() -> Durable[list[int]]:
            first = yield from call(int, "1", name=first_step)
            second = yield from answer.wait()
            return [first, second]

        bodies.append(body)
        return WorkflowEngine(store, workflows=[body])

    bodies: list[object] = []
    async with define("first") as engine:
        await engine.start(bodies[-1](), id="a")  # type: ignore[operator]
        await waiting(engine, "a", "event")
    async with define("renamed") as engine:
        assert await engine.send_event(answer, 2, to="a") == Queued()
        description = await engine.runs.describe("a")
        assert (description.summary.status, description.park_reason) == (WorkflowStatus.PARKED, ParkReason.DIVERGED)
        assert "first" in (description.summary.parked or "")
        assert "renamed" in (description.summary.parked or "")
        assert len(await engine.runs.history("a")) == 1
    async with define("first") as engine:
        assert await engine.handle("a").result(timeout=SOON) == [1, 2]


async def test_unknown_workflow_is_parked_and_the_others_go_on(store: Store) -> None:
    """A run whose code is missing is parked until the code is there; it can be terminated meanwhile."""

    @workflow(name="missing-code")
    def missing() -> Durable[int]:
        return (yield from answer.wait())

    async with WorkflowEngine(store, workflows=[missing, wait_for_answer]) as engine:
        for id in ("a", "b"):
            await engine.start(missing(), id=id)
        await engine.start(wait_for_answer(), id="c")
    async with WorkflowEngine(store, workflows=[wait_for_answer]) as engine:
        for id, reply in (("a", Queued()), ("b", Queued())):
            assert await engine.send_event(answer, 1, to=id) == reply
            assert (await engine.runs.describe(id)).park_reason is ParkReason.UNKNOWN_CODE
        await engine.send_event(answer, 3, to="c")
        assert await engine.handle("c").result(timeout=SOON) == 3
        assert await engine.recover() == RecoveryReport(parked=2)
        assert await engine.terminate("b")
        with pytest.raises(WorkflowCancelled):
            await engine.handle("b").result(timeout=SOON)
    async with WorkflowEngine(store, workflows=[missing]) as engine:
        assert await engine.handle("a").result(timeout=SOON) == 1


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE history SET outcome = '{\"broken' WHERE seq = 1",
        "UPDATE workflow SET input = 'no json' WHERE id = 'a'",
        "UPDATE history SET position = '7' WHERE seq = 1",
    ],
    ids=["outcome", "input", "position"],
)
async def test_damaged_workflow_is_parked_and_the_others_go_on(file: Path, damage: str) -> None:
    """One bad row never stops the others: its workflow is parked with the reason."""
    async with WorkflowEngine(file) as engine:

        @workflow(name="damaged")
        def body() -> Durable[int]:
            number = yield from call(int, "1")
            return number + (yield from answer.wait())

        await engine.start(body(), id="a")
        await engine.start(wait_for_answer(), id="b")
        await waiting(engine, "a", "event")
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(damage)
    async with WorkflowEngine(file, workflows=[body, wait_for_answer]) as engine:
        assert await engine.send_event(answer, 1, to="a") == Queued()
        assert await engine.query_status("a") is WorkflowStatus.PARKED
        await engine.send_event(answer, 3, to="b")
        assert await engine.handle("b").result(timeout=SOON) == 3
    assert query(file, "SELECT count(*) FROM history WHERE kind = 'activity'") == [(1,)]


async def test_version_of_a_run_is_the_one_it_started_with(store: Store) -> None:
    """A run keeps its version of the code; new runs use the newest registered version."""

    @workflow(name="versioned", version=1)
    def first() -> Durable[str]:
        return f"first {(yield from answer.wait())}"

    @workflow(name="versioned", version=2)
    def second() -> Durable[str]:
        return f"second {(yield from answer.wait())}"

    async with WorkflowEngine(store, workflows=[first]) as engine:
        await engine.start(first(), id="a")
    async with WorkflowEngine(store, workflows=[first, second]) as engine:
        await engine.start(second(), id="b")
        for id, text in (("a", "first 1"), ("b", "second 1")):
            await engine.send_event(answer, 1, to=id)
            assert await engine.handle(id).result(timeout=SOON) == text
