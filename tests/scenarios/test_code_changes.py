"""Code that changes while workflows run, through the engine and over restarts."""

from __future__ import annotations

from typing import Any

import pytest

from durable import (
    CannotRetry,
    Durable,
    Event,
    ParkReason,
    WorkflowDef,
    WorkflowEngine,
    WorkflowStatus,
    activity,
    patched,
    removed,
    workflow,
)
from tests.scenarios.kit import SOON, Store, waiting

pytestmark = pytest.mark.anyio
approval = Event[str]("changes-approval")
ran: list[str] = []


@activity(name="changes-charge")
async def charge(amount: int) -> int:
    """Take money."""
    ran.append(f"charge {amount}")
    return amount


@activity(name="changes-ship")
async def ship(how: str) -> str:
    """Send it."""
    ran.append(f"ship {how}")
    return how


def checkout(code: str) -> WorkflowDef[[int], str]:
    """An order: the old code ships by post; the new code ships by courier and needs no approval."""

    @workflow(name="changes-checkout")
    def body(amount: int) -> Durable[str]:
        yield from charge(amount)
        if code == "old":
            yield from approval.wait()
        elif code != "other":
            yield from removed("changes-approval")
        if code in ("new", "other") and patched("courier"):
            return (yield from ship("courier"))
        return (yield from ship("post"))

    return body


async def test_patched_and_removed_across_a_restart(store: Store) -> None:
    """A waiting run continues without the removed step on the old branch; a new run takes the new branch."""
    ran.clear()
    async with WorkflowEngine(store, workflows=[checkout("old")]) as engine:
        await engine.start(checkout("old")(5), id="waits")
        await waiting(engine, "waits", "event")
    async with WorkflowEngine(store, workflows=[checkout("new")]) as engine:
        # It sleeps until an event arrives, here the one that it no longer waits for.
        await engine.send_event(approval, "yes", to="waits")
        assert await engine.handle("waits").result(timeout=SOON) == "post"
        new = await engine.start(checkout("new")(7), id="new")
        assert await new.result(timeout=SOON) == "courier"
        kinds = [(entry.kind.value, entry.name, entry.outcome) for entry in await engine.runs.history("waits")]
        assert kinds[1] == ("patch", "courier", "false")
    assert ran == ["charge 5", "ship post", "charge 7", "ship courier"]
    async with WorkflowEngine(store, workflows=[checkout("without")]) as engine:
        assert await engine.handle("new").result(timeout=SOON) == "courier"


async def test_event_for_a_step_that_is_gone(store: Store) -> None:
    """The event wakes the workflow, which continues without it; an event that is never taken becomes a dead letter."""
    async with WorkflowEngine(store, workflows=[checkout("old")]) as engine:
        await engine.start(checkout("old")(5), id="waits")
        await waiting(engine, "waits", "event")
    async with WorkflowEngine(store, workflows=[checkout("new")]) as engine:
        await engine.send_event(approval, "yes", to="waits")
        assert await engine.handle("waits").result(timeout=SOON) == "post"
        assert [letter.name for letter in await engine.dead_letters.list()] == ["changes-approval"]


async def test_two_versions_side_by_side(store: Store) -> None:
    """Runs keep the version with which they began, over restarts, while new runs take the other."""

    def version(number: int) -> WorkflowDef[[], str]:
        @workflow(name="changes-versions", version=number)
        def body() -> Durable[str]:
            if number == 2:
                yield from charge(1)
            return f"{number} {yield from approval.wait()}"

        return body

    async with WorkflowEngine(store, workflows=[version(1)]) as engine:
        await engine.start(version(1)(), id="one")
    async with WorkflowEngine(store, workflows=[version(1), version(2)]) as engine:
        await engine.start(version(2)(), id="two")
        await waiting(engine, "two", "event")
        for id in ("one", "two"):
            await engine.send_event(approval, "yes", to=id)
        results = [await engine.handle(id).result(timeout=SOON) for id in ("one", "two")]
        assert results == ["1 yes", "2 yes"]


async def test_parked_with_its_diff_and_on_again(store: Store) -> None:
    """Code that does not fit parks the run with a diff and appends nothing; with fitting code it continues."""
    async with WorkflowEngine(store, workflows=[checkout("old")]) as engine:
        await engine.start(checkout("old")(5), id="w")
        await waiting(engine, "w", "event")
        await engine.send_event(approval, "yes", to="w")
        await engine.handle("w").result(timeout=SOON)
        forked = await engine.runs.fork("w", "2", new_id="f")
        await forked.result(timeout=SOON)
        await engine.start(checkout("old")(5), id="v")
        await waiting(engine, "v", "event")

    @workflow(name="changes-checkout")
    def wrong(amount: int) -> Durable[str]:
        return (yield from ship("first of all"))

    async with WorkflowEngine(store, workflows=[wrong]) as engine:
        await engine.send_event(approval, "yes", to="v")
        description = await engine.runs.describe("v")
        assert (description.summary.status, description.park_reason) == (WorkflowStatus.PARKED, ParkReason.DIVERGED)
        parked = description.summary.parked or ""
        assert "- recorded: activity changes-charge" in parked
        assert "+ code asks: activity changes-ship" in parked
        assert len(await engine.runs.history("v")) == 1
        with pytest.raises(CannotRetry, match="still parked"):
            await engine.runs.retry("v")
    async with WorkflowEngine(store, workflows=[checkout("new")]) as engine:
        assert await engine.handle("v").result(timeout=SOON) == "post"


async def test_parked_is_retried_without_a_restart(store: Store) -> None:
    """A run whose code was missing continues when the code is there and an operator recovers it."""
    async with WorkflowEngine(store, workflows=[checkout("old")]) as engine:
        await engine.start(checkout("old")(5), id="v")
        await waiting(engine, "v", "event")
    async with WorkflowEngine(store, workflows=[]) as engine:
        await engine.send_event(approval, "yes", to="v")
        assert await engine.query_status("v") is WorkflowStatus.PARKED
        with pytest.raises(CannotRetry, match="changes-checkout"):
            await engine.runs.retry("v")
        # The first start of a workflow registers its code.
        await engine.start(checkout("old")(1), id="other")
        handle = await engine.runs.retry("v")
        result: Any = await handle.result(timeout=SOON)
        assert result == "post"
