"""Callers that wait for the result of a parked workflow learn why it is parked; a handle knows its workflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest

from durable import (
    Durable,
    Event,
    SyncWorkflowEngine,
    WorkflowEngine,
    WorkflowParked,
    WorkflowStatus,
    WrongWorkflow,
    activity,
    workflow,
)
from durable.runner.definitions import WorkflowDef
from tests.scenarios.kit import SOON, Store, waiting

pytestmark = pytest.mark.anyio
go = Event[int]("parked-results-go")


@attrs.frozen
class Receipt:
    """A result that is not a plain JSON value."""

    amount: int


@activity
def ship(text: str) -> str:
    """Another step."""
    return text


@workflow(name="parked-results")
def fitting() -> Durable[Receipt]:
    """Waits for an event."""
    yield from ship("first")
    return Receipt((yield from go.wait()))


def changed() -> WorkflowDef[[], Receipt]:
    """The same workflow after an incompatible change."""

    @workflow(name="parked-results")
    def wrong() -> Durable[Receipt]:
        return Receipt((yield from go.wait()))

    return wrong


wrong = changed()


@workflow(name="parked-results-other")
def other() -> Durable[str]:
    """Another workflow."""
    return (yield from ship("other"))


async def begin(store: Store) -> None:
    """Start a workflow under the code that fits."""
    async with WorkflowEngine(store, workflows=[fitting]) as engine:
        await engine.start(fitting(), id="w")
        await waiting(engine, "w", "event")


async def test_result_of_a_parked_workflow_says_why_it_is_parked(store: Store) -> None:
    """`result()` raises with the difference between code and history instead of waiting."""
    await begin(store)
    async with WorkflowEngine(store, workflows=[wrong]) as engine:
        await engine.send_event(go, 5, to="w")
        with anyio.fail_after(SOON), pytest.raises(WorkflowParked, match="recorded: activity ship") as caught:
            await engine.handle("w").result()
        assert caught.value.workflow_id == "w"
        with anyio.fail_after(SOON), pytest.raises(WorkflowParked, match="wait_if_parked=True"):
            await engine.handle("w").result(timeout=SOON)


@pytest.mark.parametrize("other_count", [0, 1])
async def test_result_is_told_when_the_workflow_becomes_parked(store: Store, other_count: int) -> None:
    """A caller that already waits gets the reason too, unless it asked to keep waiting."""
    await begin(store)
    reasons: list[str] = []

    async def ask(wait_if_parked: bool) -> None:
        try:
            await engine.handle("w").result(wait_if_parked=wait_if_parked)
        except WorkflowParked as error:
            reasons.append(error.detail)

    with anyio.fail_after(SOON):
        async with WorkflowEngine(store, workflows=[wrong]) as engine, anyio.create_task_group() as tasks:
            for wait_if_parked in (*[True] * other_count, False):
                tasks.start_soon(ask, wait_if_parked)
            await anyio.wait_all_tasks_blocked()
            await engine.send_event(go, 5, to="w")
            while not reasons:
                await engine.query_status("w")
            await engine.query_status("w")
            assert len(reasons) == 1
            tasks.cancel_scope.cancel()


async def test_result_of_a_parked_workflow_can_be_waited_for(store: Store) -> None:
    """With `wait_if_parked=True` the result arrives once the workflow is repaired."""
    await begin(store)
    results: list[Any] = []

    async def ask() -> None:
        results.append(await engine.handle("w").result(wait_if_parked=True))

    with anyio.fail_after(SOON):
        async with WorkflowEngine(store, workflows=[]) as engine, anyio.create_task_group() as tasks:
            await engine.send_event(go, 5, to="w")
            assert await engine.query_status("w") is WorkflowStatus.PARKED
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            # The first start of a workflow registers its code.
            await engine.start(fitting(), id="other")
            await engine.runs.retry("w")
    assert results == [Receipt(5)]


def test_result_of_a_parked_workflow_raises_without_a_loop_too(tmp_path: Path) -> None:
    """`SyncWorkflowEngine` does the same."""
    with SyncWorkflowEngine(tmp_path / "s.db", workflows=[fitting]) as engine:
        handle = engine.start(fitting(), id="w")
        while not engine.runs.history("w"):
            assert handle.status() is not WorkflowStatus.PARKED
    with SyncWorkflowEngine(tmp_path / "s.db", workflows=[wrong]) as engine:
        engine.send_event(go, 5, to="w")
        with pytest.raises(WorkflowParked):
            engine.handle("w").result()
        with pytest.raises(TimeoutError):
            engine.handle("w", fitting).result(timeout=0, wait_if_parked=True)


async def test_handle_of_a_workflow_decodes_its_result() -> None:
    """A handle that knows its workflow decodes the result, also in an engine without its code."""
    async with WorkflowEngine("memory://", workflows=[fitting]) as engine:
        await engine.start(fitting(), id="w")
        await engine.send_event(go, 5, to="w")
        handle = engine.handle("w", fitting)
        assert (await handle.result(timeout=SOON)).amount == 5
        assert await handle.status() is WorkflowStatus.SUCCEEDED


async def test_handle_of_a_workflow_reads_results_without_its_code(store: Store) -> None:
    """Old runs outlive their code; a handle with the workflow can still read them."""
    async with WorkflowEngine(store, workflows=[fitting]) as engine:
        await engine.start(fitting(), id="w")
        await engine.send_event(go, 5, to="w")
        await engine.handle("w").result(timeout=SOON)
    async with WorkflowEngine(store, workflows=[]) as engine:
        assert await engine.handle("w").result(timeout=SOON) == {"amount": 5}
        assert await engine.handle("w", fitting).result(timeout=SOON) == Receipt(5)


@pytest.mark.parametrize("verb", ["result", "status", "cancel", "progress"])
async def test_handle_of_another_workflow_is_refused_when_used(verb: str) -> None:
    """An id that belongs to another workflow is an error that names both, and nothing changes."""
    async with WorkflowEngine("memory://", workflows=[fitting, other]) as engine:
        await engine.start(fitting(), id="w")
        with pytest.raises(WrongWorkflow, match="'w' runs 'parked-results', not 'parked-results-other'"):
            await getattr(engine.handle("w", other), verb)()
        with pytest.raises(WrongWorkflow):
            await engine.handle("w", other).watch().next()
        assert await engine.query_status("w") is not WorkflowStatus.CANCELLED
        assert await engine.handle("nobody", other).status() is None


async def test_handle_follows_a_workflow_that_continues_as_another() -> None:
    """A run that has continued as another workflow still belongs to the handle of the first."""

    @workflow(name="parked-results-first")
    def first() -> Durable[str]:
        yield from ship("first")
        raise other.continue_as()

    async with WorkflowEngine("memory://") as engine:
        await engine.start(first(), id="w")
        assert await engine.handle("w", first).result(timeout=SOON) == "other"
