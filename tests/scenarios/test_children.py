"""Children, and workflows that continue as another round under the same id."""

from __future__ import annotations

import gc
from pathlib import Path

import anyio
import pytest

from durable import (
    ChildDepthExceeded,
    ChildWorkflowCancelled,
    ChildWorkflowFailed,
    Durable,
    EngineConfig,
    Event,
    Retry,
    WorkflowAlreadyExists,
    WorkflowEngine,
    WorkflowFailed,
    WorkflowStatus,
    activity,
    gather,
    info,
    race,
    sleep,
    spawn,
    workflow,
)
from durable.backends.sqlite import SqliteBackend
from tests.scenarios.kit import SOON, Store, row_count, waiting

pytestmark = pytest.mark.anyio
answer = Event[int]("children-answer")


@workflow(name="children-ask")
def ask(times: int) -> Durable[int]:
    """A child that waits for a number."""
    return times * (yield from answer.wait())


@workflow(name="children-parent")
def parent(times: int) -> Durable[int]:
    """A parent of one."""
    return 1 + (yield from ask(times))


@activity(retry=Retry.never())
async def fail(text: str) -> None:
    """Fail."""
    raise ValueError(text)


@workflow(name="children-failing")
def failing() -> Durable[None]:
    """A child that fails."""
    yield from fail("child's fault")


async def test_child_result_reaches_its_parent_over_restarts(store: Store) -> None:
    """A child is a workflow with its own id; its end wakes the parent, and a replay does not start it again."""
    async with WorkflowEngine(store) as engine:
        await engine.start(parent(3), id="p")
        assert await engine.query_status("p/0") is WorkflowStatus.SUSPENDED
    async with WorkflowEngine(store) as engine:
        await waiting(engine, "p", "child")
        await engine.send_event(answer, 7, to="p/0")
        assert await engine.handle("p").result(timeout=SOON) == 22
        assert await engine.handle("p/0").result(timeout=SOON) == 21
        assert await engine.runs.count() == 2


async def test_child_failure_is_raised_in_the_parent(store: Store) -> None:
    """`ChildWorkflowFailed` names the child and carries the original error; the parent may catch it."""

    @workflow(name="catches")
    def catches() -> Durable[list[str]]:
        try:
            yield from failing()
        except ChildWorkflowFailed as error:
            return [error.workflow_id, type(error.__cause__).__name__, error.message]
        return []

    async with WorkflowEngine(store) as engine:
        assert await (await engine.start(catches(), id="p")).result(timeout=SOON) == [
            "p/0", "ValueError", "child's fault",
        ]  # fmt: skip


async def test_cancelled_child_is_raised_in_the_parent(store: Store) -> None:
    """A child that is cancelled raises `ChildWorkflowCancelled` in its parent, with the reason."""
    async with WorkflowEngine(store) as engine:
        handle = await engine.start(parent(1), id="p")
        assert await engine.cancel("p/0", reason="not needed")
        with pytest.raises(WorkflowFailed, match="not needed") as caught:
            await handle.result(timeout=SOON)
        assert isinstance(caught.value.__cause__, ChildWorkflowCancelled)


@pytest.mark.parametrize("how", ["cancel", "terminate"])
async def test_ending_a_parent_cancels_the_child_it_awaits(store: Store, how: str) -> None:
    """However a parent is ended, the child that it waits for is cancelled."""
    async with WorkflowEngine(store) as engine:
        await engine.start(parent(1), id="p")
        assert await (engine.cancel("p") if how == "cancel" else engine.terminate("p"))
        for id in ("p", "p/0"):
            assert await engine.query_status(id) is WorkflowStatus.CANCELLED


@pytest.mark.parametrize("goes_on", [False, True])
async def test_child_that_lost_a_race_is_cancelled(store: Store, goes_on: bool) -> None:
    """The losing branch's child is cancelled, whether its parent ends with the race or continues."""

    @workflow(name="race-of-children")
    def body(goes_on: bool) -> Durable[int]:
        won = yield from race(slow=ask(1), quick=ask(2).with_id("quick"))
        assert won.key == "quick"
        return int(won.value) + ((yield from answer.wait()) if goes_on else 0)

    async with WorkflowEngine(store) as engine:
        handle = await engine.start(body(goes_on), id="p")
        await engine.send_event(answer, 5, to="quick")
        assert await engine.query_status("p/0.slow.0") is WorkflowStatus.CANCELLED
        if goes_on:
            await engine.send_event(answer, 1, to="p")
        assert await handle.result(timeout=SOON) == 10 + goes_on


async def test_child_id_that_is_taken_is_refused(store: Store) -> None:
    """A child whose id belongs to another workflow raises `WorkflowAlreadyExists` in the parent."""

    @workflow(name="wants-an-id")
    def wants() -> Durable[str]:
        try:
            yield from ask(1).with_id("taken")
        except WorkflowAlreadyExists as error:
            return error.workflow_id
        return "free"

    async with WorkflowEngine(store) as engine:
        await engine.start(ask(1), id="taken")
        assert await (await engine.start(wants())).result(timeout=SOON) == "taken"


async def test_children_of_children_are_bounded(store: Store) -> None:
    """A workflow that keeps starting itself as a child ends with `ChildDepthExceeded` at the limit."""

    @workflow(name="matryoshka")
    def matryoshka() -> Durable[int]:
        try:
            return 1 + (yield from matryoshka())
        except ChildDepthExceeded as error:
            return error.limit

    async with WorkflowEngine(store, config=EngineConfig(max_child_depth=5)) as engine:
        assert await (await engine.start(matryoshka())).result(timeout=SOON) == 10
        assert await engine.runs.count() == 6


async def test_a_hundred_children_at_once(store: Store) -> None:
    """A gather of a hundred children gets all results in order."""

    @workflow(name="square")
    def square(number: int) -> Durable[int]:
        yield from sleep(0)
        return number * number

    @workflow(name="squares")
    def squares() -> Durable[list[int]]:
        return list((yield from gather(*(square(number) for number in range(100)))))

    async with WorkflowEngine(store) as engine:
        assert await (await engine.start(squares())).result(timeout=SOON) == [n * n for n in range(100)]


# --- continue_as --------------------------------------------------------------------------------------------------


async def test_continue_as_keeps_id_and_mailbox(store: Store) -> None:
    """A new round keeps the id and the untaken mail, and has an empty history; starting it again finds it."""

    @workflow(name="sums-up")
    def sums_up(total: int) -> Durable[list[int]]:
        number = yield from answer.wait()
        if number == 0:
            return [total, info().round]
        raise sums_up.continue_as(total + number)

    async with WorkflowEngine(store, workflows=[sums_up]) as engine:
        handle = await engine.start(sums_up(0), id="a")
        async with anyio.create_task_group() as tasks:
            for number in (1, 2, 3):
                tasks.start_soon(engine.send_event, answer, number)
    async with WorkflowEngine(store, workflows=[sums_up]) as engine:
        assert (await engine.start(sums_up(0), id="a")).id == "a"
        assert len(await engine.runs.history("a")) == 0
        await engine.send_event(answer, 0, to="a")
        handle = engine.handle("a")
        assert await handle.result(timeout=SOON) == [6, 3]


async def test_continue_as_another_workflow_and_its_parent(store: Store) -> None:
    """A child may continue as another workflow; its parent gets only the final result."""

    @workflow(name="second-form")
    def second_form(number: int) -> Durable[int]:
        yield from sleep(0)
        return number + 1

    @workflow(name="first-form")
    def first_form() -> Durable[int]:
        yield from sleep(0)
        raise second_form.continue_as(41)

    @workflow(name="parent-of-forms")
    def body() -> Durable[int]:
        return (yield from first_form())

    async with WorkflowEngine(store) as engine:
        assert await (await engine.start(body(), id="p")).result(timeout=SOON) == 42
        assert (await engine.runs.describe("p/0")).summary.name == "second-form"


async def test_child_ids_after_continue_as(store: Store) -> None:
    """A child's id is its parent's id and its position; from the second round on, the round comes first."""

    @workflow(name="names-child")
    def names_child() -> Durable[str]:
        yield from sleep(0)
        return info().id

    @workflow(name="names-children")
    def names_children(seen: list[str]) -> Durable[list[str]]:
        awaited = yield from names_child()
        spawned = yield from spawn(names_child())
        seen = [*seen, awaited, (yield from spawned.result())]
        if info().round < 2:
            raise names_children.continue_as(seen)
        return seen

    async with WorkflowEngine(store) as engine:
        handle = await engine.start(names_children([]), id="p")
        assert await handle.result(timeout=SOON) == ["p/0", "p/1", "p/1:0", "p/1:1", "p/2:0", "p/2:1"]
        assert await engine.query_status("p/2:1") is WorkflowStatus.SUCCEEDED


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_ten_thousand_rounds_take_constant_space(file: Path) -> None:
    """Between round 2,000 and round 10,000 neither the rows of the store nor the objects in memory grow."""
    measured: list[tuple[int, int]] = []

    @activity
    async def measure(number: int) -> None:
        gc.collect()
        measured.append((row_count(file), len(gc.get_objects())))

    @workflow(name="rounds")
    def rounds(number: int) -> Durable[int]:
        if number in (2_000, 10_000):
            yield from measure(number)
        if number == 10_000:
            return info().round
        raise rounds.continue_as(number + 1)

    async with WorkflowEngine(SqliteBackend(file, synchronous="NORMAL"), workflows=[rounds]) as engine:
        handle = await engine.start(rounds(0), id="a")
        assert await handle.result(timeout=60) == 10_000
    (rows_early, objects_early), (rows_late, objects_late) = measured
    assert rows_early == rows_late
    assert objects_late < objects_early + 1_000
