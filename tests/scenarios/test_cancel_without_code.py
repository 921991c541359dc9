"""Cancelling workflows whose code is not loaded: from an operator's script, or while they are parked."""

from __future__ import annotations

import pytest

from durable import (
    Cancelled,
    Durable,
    Event,
    ParkReason,
    WorkflowCancelled,
    WorkflowEngine,
    WorkflowStatus,
    activity,
    failed_undos,
    spawn,
    workflow,
)
from durable.model.records import OnParentClose
from tests.scenarios.kit import SOON, Store, waiting

pytestmark = pytest.mark.anyio
delivered = Event[bool]("cancel-delivered")
done: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


@activity(name="cancel-charge")
async def charge() -> str:
    """A step that costs money."""
    done.append("charge")
    return "payment"


@activity(name="cancel-refund")
async def refund(payment: str) -> None:
    """Refunds it."""
    done.append(f"refund {payment}")


@activity(name="cancel-tidy")
async def tidy() -> None:
    """Explicit cleanup."""
    done.append("tidy")


@workflow(name="cancel-order")
def order() -> Durable[None]:
    """Charges, and waits; it tidies up and refunds when it is cancelled."""
    yield from charge().undo(refund)
    try:
        yield from delivered.wait()
    except Cancelled:
        yield from tidy()
        raise


@workflow(name="cancel-family")
def family() -> Durable[None]:
    """Ends, and its order with it."""
    yield from spawn(order(), id="child", on_parent_close=OnParentClose.CANCEL)
    yield from delivered.wait()


async def _paid(store: Store, *ids: str) -> None:
    """Orders that are paid and wait, in a store that no engine has open."""
    async with WorkflowEngine(store, workflows=[order]) as engine:
        for id in ids:
            await engine.start(order(), id=id)
            await waiting(engine, id, "event")


async def test_cancel_without_code_waits_for_the_code(store: Store) -> None:
    """A cancel from a script without the workflow's module is kept; the next start with the code refunds."""
    await _paid(store, "a")
    async with WorkflowEngine(store, workflows=[]) as script:
        assert await script.cancel("a", "out of stock") is True
        description = await script.runs.describe("a")
        assert (description.cancel_requested, description.summary.status) == (True, WorkflowStatus.PARKED)
        assert description.park_reason is ParkReason.UNKNOWN_CODE
        (summary,) = await script.runs.list(status=WorkflowStatus.PARKED)
        assert (summary.id, summary.cancel_requested) == ("a", True)
        with pytest.raises(TimeoutError):
            await script.handle("a").result(timeout=0)
    assert done == ["charge"]
    async with WorkflowEngine(store, workflows=[order]) as engine:
        with pytest.raises(WorkflowCancelled, match="out of stock"):
            await engine.handle("a").result(timeout=SOON)
        assert (await engine.runs.describe("a")).failed_undos == ()
    assert done == ["charge", "tidy", "refund payment"]


async def test_cancel_of_a_parked_workflow_waits_for_the_code(store: Store) -> None:
    """A parked workflow keeps a cancel too; the reason given last is raised."""
    await _paid(store, "a")
    async with WorkflowEngine(store, workflows=[]) as script:
        await script.cancel("a", "first")
        assert await script.cancel("a", "second") is True
        assert (await script.recover()).parked == 1
        assert (await script.runs.describe("a")).cancel_requested is True
    async with WorkflowEngine(store, workflows=[order]) as engine:
        with pytest.raises(WorkflowCancelled, match="second"):
            await engine.handle("a").result(timeout=SOON)
        assert [entry.kind.value for entry in await engine.runs.history("a")].count("cancel") == 1
    assert done == ["charge", "tidy", "refund payment"]


async def test_child_without_code_is_cancelled_when_the_code_is_back(store: Store) -> None:
    """A parent that ends cancels a child whose code is missing; the child refunds once its code is there."""
    async with WorkflowEngine(store, workflows=[order, family]) as engine:
        await engine.start(family(), id="parent")
        await waiting(engine, "child", "event")
    async with WorkflowEngine(store, workflows=[family]) as engine:
        await engine.send_event(delivered, True, to="parent")
        await engine.handle("parent").result(timeout=SOON)
        description = await engine.runs.describe("child")
        assert (description.cancel_requested, description.summary.status) == (True, WorkflowStatus.PARKED)
    async with WorkflowEngine(store, workflows=[order]) as engine:
        with pytest.raises(WorkflowCancelled, match="parent 'parent' has ended"):
            await engine.handle("child").result(timeout=SOON)
    assert done == ["charge", "tidy", "refund payment"]


async def test_delayed_workflow_without_code_ends_at_once(store: Store) -> None:
    """A workflow that has never begun owes nothing, so a cancel ends it even where its code is missing."""
    async with WorkflowEngine(store, workflows=[order]) as engine:
        await engine.start(order(), id="a", delay=3600)
    async with WorkflowEngine(store, workflows=[]) as script:
        assert await script.cancel("a") is True
        assert await script.query_status("a") is WorkflowStatus.CANCELLED


async def test_terminate_tells_which_undos_were_given_up(store: Store) -> None:
    """Terminate runs no undo; the description and the error name the undos that were owed."""
    await _paid(store, "a")
    async with WorkflowEngine(store, workflows=[order]) as engine:
        assert await engine.terminate("a", "enough") is True
        (undo,) = (await engine.runs.describe("a")).failed_undos
        assert (undo.position, undo.undo, undo.error_type) == ("0", "cancel-refund", "terminated")
        with pytest.raises(WorkflowCancelled, match="enough") as caught:
            await engine.handle("a").result(timeout=SOON)
        assert failed_undos(caught.value) == (undo,)
    assert done == ["charge"]


async def test_terminate_without_code_says_that_undos_are_unknown(store: Store) -> None:
    """If the body cannot be rebuilt, its undos are unknown, and terminate says so."""
    await _paid(store, "a")
    async with WorkflowEngine(store, workflows=[]) as script:
        await script.cancel("a")
        assert await script.terminate("a") is True
        (undo,) = (await script.runs.describe("a")).failed_undos
        assert (undo.undo, undo.error_type) == ("unknown", "terminated")
        assert "it is unknown which undos were owed" in undo.message
        assert "cancel-order" in undo.message
    async with WorkflowEngine(store, workflows=[order]) as engine:
        assert await engine.query_status("a") is WorkflowStatus.CANCELLED
    assert done == ["charge"]
