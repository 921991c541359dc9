"""Spawned children, through the engine: kept or not, awaited later, three deep, over restarts."""

from __future__ import annotations

import pytest

from durable import (
    ChildWorkflowCancelled,
    ChildWorkflowFailed,
    Durable,
    Event,
    OnParentClose,
    Retry,
    WorkflowAlreadyExists,
    WorkflowEngine,
    WorkflowStatus,
    activity,
    gather,
    race,
    spawn,
    workflow,
)
from tests.scenarios.kit import SOON, Store, waiting

pytestmark = pytest.mark.anyio
answer = Event[int]("spawning-answer")
carry_on = Event[str]("spawning-carry-on")


@activity(retry=Retry.never())
async def fail() -> None:
    """Fail."""
    raise ValueError("child's fault")


@workflow(name="spawning-ask")
def ask(times: int) -> Durable[int]:
    """A child that waits for a number."""
    return times * (yield from answer.wait())


@workflow(name="spawning-failing")
def failing() -> Durable[None]:
    """A child that fails."""
    yield from fail()


@workflow(name="spawning-later")
async def later(times: int) -> list[int]:
    """Spawns two, does something else, and then asks for both results, one of them twice."""
    first = await spawn(ask(times))
    second = await spawn(ask(times), id="second")
    await carry_on.wait()
    results = await gather(second.result(), first.result())
    return [*results, await first.result()]


async def test_results_that_are_asked_for_later(store: Store) -> None:
    """Spawned children run while their parent does something else; their results are there whenever it asks."""
    async with WorkflowEngine(store) as engine:
        handle = await engine.start(later(2), id="p")
        assert [await engine.query_status(id) for id in ("p/0", "second")] == [WorkflowStatus.SUSPENDED] * 2
        await engine.send_event(answer, 1, to="p/0")
        assert await engine.handle("p/0").result(timeout=SOON) == 2
    async with WorkflowEngine(store) as engine:
        await engine.send_event(carry_on, "", to="p")
        wait = await waiting(engine, "p", "result")
        assert wait.name == "second"
    async with WorkflowEngine(store) as engine:
        await engine.send_event(answer, 2, to="second")
        assert await engine.handle("p").result(timeout=SOON) == [4, 2, 2]
        assert await engine.runs.count() == 3
        kinds = [entry.kind.value for entry in await engine.runs.history(handle.id)]
        assert kinds == ["spawn", "spawn", "event", "result", "result", "result"]


@pytest.mark.parametrize("close", list(OnParentClose))
@pytest.mark.parametrize("how", ["return", "cancel", "terminate"])
async def test_what_becomes_of_a_child_without_its_parent(store: Store, how: str, close: OnParentClose) -> None:
    """A child that was spawned to be kept continues when its parent has ended; another is cancelled with it."""

    @workflow(name="leaves")
    def leaves() -> Durable[str]:
        handle = yield from spawn(ask(3), on_parent_close=close)
        yield from carry_on.wait()
        return handle.id

    async with WorkflowEngine(store, workflows=[leaves, ask]) as engine:
        handle = await engine.start(leaves(), id="p")
        if how == "return":
            await engine.send_event(carry_on, "", to="p")
            assert await handle.result(timeout=SOON) == "p/0"
        else:
            assert await (engine.cancel("p") if how == "cancel" else engine.terminate("p"))
        if close is OnParentClose.CANCEL:
            assert await engine.query_status("p/0") is WorkflowStatus.CANCELLED
            return
    async with WorkflowEngine(store, workflows=[ask]) as engine:
        await engine.send_event(answer, 5, to="p/0")
        assert await engine.handle("p/0").result(timeout=SOON) == 15


async def test_children_of_a_parked_parent_end_with_it(store: Store) -> None:
    """Terminating a parent without code cancels the child it awaits and the spawned child that is not kept."""

    @workflow(name="lost-code")
    def lost() -> Durable[int]:
        yield from spawn(ask(1), on_parent_close=OnParentClose.CANCEL)
        yield from spawn(ask(1))
        return (yield from ask(1))

    async with WorkflowEngine(store, workflows=[lost, ask]) as engine:
        await engine.start(lost(), id="p")
    async with WorkflowEngine(store, workflows=[ask]) as engine:
        await engine.cancel("p")
        assert await engine.query_status("p") is WorkflowStatus.PARKED
        assert await engine.terminate("p")
        statuses = [await engine.query_status(f"p/{place}") for place in (0, 1, 2)]
        cancelled = WorkflowStatus.CANCELLED
        assert statuses == [cancelled, WorkflowStatus.SUSPENDED, cancelled]


async def test_failures_and_cancellations_of_spawned_children(store: Store) -> None:
    """An error of a spawned child is raised where its result is requested, and nowhere else."""

    @workflow(name="catches-all")
    def catches() -> Durable[list[str]]:
        bad = yield from spawn(failing())
        slow = yield from spawn(ask(1))
        yield from carry_on.wait()
        answers = [f"{(yield from slow.cancel('no need'))}"]
        for handle in (bad, slow):
            try:
                yield from handle.result()
            except ChildWorkflowFailed as error:
                answers.append(f"{error.workflow_id} {error.__cause__!r}")
            except ChildWorkflowCancelled as error:
                answers.append(f"{error.workflow_id} {error.reason}")
        return answers

    async with WorkflowEngine(store) as engine:
        handle = await engine.start(catches(), id="p")
        await engine.send_event(carry_on, "", to="p")
        answers = await handle.result(timeout=SOON)
        assert answers == ["True", 'p/0 ValueError("child\'s fault")', "p/1 no need"]


async def test_race_of_spawned_children(store: Store) -> None:
    """Results of spawned children may race; the loser continues and can be awaited again."""

    @workflow(name="races-children")
    def body() -> Durable[list[int]]:
        slow = yield from spawn(ask(1), id="slow")
        quick = yield from spawn(ask(2), id="quick")
        won = yield from race(slow=slow.result(), quick=quick.result())
        assert won.key == "quick"
        return [won.value, (yield from slow.result().within(3600))]

    async with WorkflowEngine(store) as engine:
        handle = await engine.start(body(), id="p")
        await engine.send_event(answer, 5, to="quick")
        assert await engine.query_status("slow") is WorkflowStatus.SUSPENDED
        await engine.send_event(answer, 7, to="slow")
        assert await handle.result(timeout=SOON) == [10, 7]


async def test_id_of_a_stranger(store: Store) -> None:
    """A child cannot take an id that is in use: the body gets a typed error, and the other workflow continues."""

    @workflow(name="wants-a-name")
    def wants() -> Durable[str]:
        try:
            yield from spawn(ask(1), id="taken", on_parent_close=OnParentClose.CANCEL)
        except WorkflowAlreadyExists as error:
            return f"{error.workflow_id} is {error.name}"
        return "free"

    async with WorkflowEngine(store) as engine:
        await engine.start(ask(1), id="taken")
        assert await (await engine.start(wants())).result(timeout=SOON) == "taken is spawning-ask"
        assert await engine.query_status("taken") is WorkflowStatus.SUSPENDED


async def test_three_generations(store: Store) -> None:
    """Three generations of children, spawned or spawned and awaited, are each started once, over a restart."""

    @workflow(name="generations")
    def generation(level: int) -> Durable[int]:
        if level == 0:
            return (yield from answer.wait())
        yield from spawn(generation(level - 1))
        awaited = yield from spawn(generation(level - 1))
        return 1 + (yield from awaited.result())

    flows = [generation]
    async with WorkflowEngine(store, workflows=flows) as engine:
        await engine.start(generation(3), id="p")
        assert await engine.runs.count() == 15
    async with WorkflowEngine(store, workflows=flows) as engine:
        await engine.send_event(answer, 10, to="p/1/1/1")
        assert await engine.handle("p").result(timeout=SOON) == 13
        assert await engine.runs.count(status=WorkflowStatus.SUCCEEDED) == 4
        assert await engine.runs.count(status=WorkflowStatus.SUSPENDED) == 11
