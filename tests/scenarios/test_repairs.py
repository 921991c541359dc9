"""`engine.runs.retry`, `fork` and `repair`: operators repair workflows, over restarts, without losing anything."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from durable import (
    CannotFork,
    CannotRepair,
    CannotRetry,
    CodecError,
    Durable,
    EntryKind,
    Event,
    Retry,
    SyncWorkflowEngine,
    WorkflowAlreadyExists,
    WorkflowEngine,
    WorkflowFailed,
    WorkflowStatus,
    WorkflowTerminated,
    activity,
    activity_info,
    gather,
    pause,
    uuid,
    workflow,
)
from tests.scenarios.kit import SOON, Store, contents, waiting

answer = Event[int]("repairs-answer")


@attrs.frozen
class Price:
    """A price."""

    amount: int
    currency: str


@attrs.define
class World:
    """The outside world of the activities: whether it works, and what they did there."""

    is_up: bool = False
    done: list[str] = attrs.field(factory=list)


WORLD = World()


@pytest.fixture(autouse=True)
def _world() -> None:
    """Reset the world: nothing is done and nothing works."""
    WORLD.is_up = False
    WORLD.done.clear()


@activity(name="repairs-price")
async def price(item: str) -> Price:
    """Look up the price."""
    WORLD.done.append(f"price {item}")
    return Price(10, "EUR")


@activity(name="repairs-charge", retry=Retry(max_attempts=2, first_delay=0))
async def charge(amount: int, key: str) -> str:
    """Works once the world is up."""
    WORLD.done.append(f"charge {amount} attempt {activity_info().attempt}")
    if not WORLD.is_up:
        raise ConnectionError("down")
    return key


@workflow(name="repairs-order")
def order(item: str) -> Durable[str]:
    """Look up, charge, wait for an answer."""
    cost = yield from price(item)
    key = yield from charge(cost.amount, str(uuid("key")))
    return f"{cost.amount} {key} {yield from answer.wait()}"


@workflow(name="repairs-parent")
async def parent(item: str) -> str:
    """An order as a child, beside another."""
    results = await gather(order(item), order("gift"))
    return " ".join(results)


async def _failed(engine: WorkflowEngine, id: str = "w") -> None:
    handle = await engine.start(order("book"), id=id)
    with pytest.raises(WorkflowFailed):
        await handle.result(timeout=SOON)


@pytest.mark.anyio
async def test_retry_of_a_failed_run(store: Store) -> None:
    """The failed step begins again with all its attempts, also in another process and a second time."""
    async with WorkflowEngine(store) as engine:
        await _failed(engine)
        handle = await engine.runs.retry("w", "the bank is back")
        with pytest.raises(WorkflowFailed):
            await handle.result(timeout=SOON)
        (retried,) = [entry.value for entry in await engine.runs.history("w") if entry.kind is EntryKind.RETRIED]
        assert retried["reason"] == "the bank is back"
        with pytest.raises(ValueError, match="reason"):
            await engine.runs.retry("w", "x" * 1_001)
    attempts = ["charge 10 attempt 1", "charge 10 attempt 2"]
    assert WORLD.done == ["price book", *attempts, *attempts]
    WORLD.is_up = True
    async with WorkflowEngine(store) as engine:
        handle = await engine.runs.retry("w")
        await waiting(engine, "w", "event")
        with pytest.raises(CannotRetry, match="only a failed or parked"):
            await engine.runs.retry("w")
    async with WorkflowEngine(store) as engine:
        await engine.send_event(answer, 1, to="w")
        assert (await engine.handle("w").result(timeout=SOON)).startswith("10 ")
    assert WORLD.done == ["price book", *attempts, *attempts, "charge 10 attempt 1"]


@pytest.mark.anyio
async def test_retry_of_a_family(store: Store) -> None:
    """A parent continues with the child that made it fail and with the child that was cancelled with it."""
    async with WorkflowEngine(store) as engine:
        handle = await engine.start(parent("book"), id="p")
        with pytest.raises(WorkflowFailed):
            await handle.result(timeout=SOON)
    WORLD.is_up = True
    async with WorkflowEngine(store) as engine:
        handle = await engine.runs.retry("p")
        for child in ("p/0.0.0", "p/0.1.0"):
            await waiting(engine, child, "event")
            await engine.send_event(answer, 1, to=child)
        assert (await handle.result(timeout=SOON)).count("10 ") == 2
        assert await engine.runs.count() == 3


@pytest.mark.anyio
async def test_fork(store: Store) -> None:
    """A fork has the results before its position and charges under its own key; the first run is unchanged."""
    WORLD.is_up = True
    async with WorkflowEngine(store) as engine:
        await engine.start(order("book"), id="w")
        await waiting(engine, "w", "event")
        before = await engine.runs.history("w")
        fork = await engine.runs.fork("w", "1")
        second_fork = await engine.runs.fork("w", "1", new_id="two")
        for id in (fork.id, second_fork.id):
            await waiting(engine, id, "event")
        with pytest.raises(WorkflowAlreadyExists):
            await engine.runs.fork("w", "1", new_id="two")
        with pytest.raises(CannotFork, match="recorded are 0, 1"):
            await engine.runs.fork("w", "2")
    async with WorkflowEngine(store) as engine:
        keys = set()
        for id in ("w", fork.id, "two"):
            await engine.send_event(answer, 1, to=id)
            keys.add(await engine.handle(id).result(timeout=SOON))
        assert len(keys) == 3
        assert (await engine.runs.history("w"))[:2] == before
    assert WORLD.done.count("price book") == 1


@pytest.mark.anyio
async def test_repair_of_a_failed_run(store: Store) -> None:
    """A wrong result is replaced by a value of its type, with a reason, and the run is retried with it."""
    async with WorkflowEngine(store) as engine:
        await _failed(engine)
        with pytest.raises(CodecError):
            await engine.runs.repair("w", "0", 5, "no price")
        with pytest.raises(CannotRepair, match="nothing is recorded there"):
            await engine.runs.repair("w", "2", 5, "too early")
        await engine.runs.repair("w", "0", Price(20, "EUR"), "the list was old")
        assert await engine.query_status("w") is WorkflowStatus.FAILED
    WORLD.is_up = True
    async with WorkflowEngine(store) as engine:
        with pytest.raises(CannotRetry, match="ends in"):
            await _retry_broken_code(engine)
        await engine.runs.retry("w")
        await waiting(engine, "w", "event")
        await engine.send_event(answer, 1, to="w")
        assert (await engine.handle("w").result(timeout=SOON)).startswith("20 ")
        history = await engine.runs.history("w")
        assert next(entry.outcome for entry in history if entry.position == "0") == '{"amount":10,"currency":"EUR"}'
        assert any(entry.kind.value == "repaired" and "the list was old" in entry.outcome for entry in history)
        with pytest.raises(WorkflowTerminated):
            await engine.runs.repair("w", "0", Price(1, "EUR"), "too late")


async def _retry_broken_code(engine: WorkflowEngine) -> None:
    @workflow(name="repairs-broken")
    def broken() -> Durable[None]:
        yield from price("x")
        raise KeyError("a bug")

    with pytest.raises(WorkflowFailed):
        await (await engine.start(broken(), id="broken")).result(timeout=SOON)
    await engine.runs.retry("broken")


@pytest.mark.anyio
async def test_repair_of_a_waiting_run(store: Store) -> None:
    """It continues with the value immediately: it asks another question, and the answer counts for that."""

    @workflow(name="repairs-asks")
    def asks() -> Durable[str]:
        cost = yield from price("house")
        is_fine = yield from pause(returns=bool, prompt=f"{cost.amount} {cost.currency}?")
        return f"{cost.amount} {is_fine}"

    async with WorkflowEngine(store, workflows=[asks]) as engine:
        handle = await engine.start(asks(), id="w")
        await waiting(engine, "w", "pause")
        await engine.runs.repair("w", "0", Price(99, "CHF"), "a typo")
        assert [pause.prompt for pause in await engine.pauses.list()] == ["99 CHF?"]
        await engine.pauses.resume("w", "1", True)
        assert await handle.result(timeout=SOON) == "99 True"


@pytest.mark.anyio
async def test_refusals_write_nothing(file: Path) -> None:
    """A refusal changes no row of the store."""
    WORLD.is_up = True
    async with WorkflowEngine(file) as engine:
        await engine.start(order("book"), id="w")
        await waiting(engine, "w", "event")
        before = contents(file)
        with pytest.raises(CannotRetry):
            await engine.runs.retry("w")
        with pytest.raises(CannotFork):
            await engine.runs.fork("w", "9")
        with pytest.raises(CannotRepair):
            await engine.runs.repair("w", "9", 1, "why")
        with pytest.raises(CodecError):
            await engine.runs.repair("w", "1", 1, "why")
        assert contents(file) == before


def test_without_a_loop(file: Path) -> None:
    """The same three calls on the engine for services without an event loop."""
    with SyncWorkflowEngine(file, workflows=[order]) as engine:
        handle = engine.start(order("book"), id="w")
        with pytest.raises(WorkflowFailed):
            handle.result(timeout=SOON)
        engine.runs.repair("w", "0", Price(20, "EUR"), "the list was old")
        WORLD.is_up = True
        engine.send_event(answer, 2, to="f", allow_unstarted=True)
        retried, forked = engine.runs.retry("w"), engine.runs.fork("w", "0", new_id="f")
        engine.send_event(answer, 1, to="w")
        assert retried.result(timeout=SOON).startswith("20 ")
        assert forked.id == "f"
        assert forked.result(timeout=SOON).startswith("10 ")
