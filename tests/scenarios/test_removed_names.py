"""The names by which `removed` refers to steps: the table in docs/code-changes.md."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from durable import (
    Durable,
    Event,
    WorkflowDef,
    WorkflowEngine,
    activity,
    call,
    now,
    pause,
    removed,
    sleep,
    sleep_until,
    spawn,
    workflow,
)
from tests.scenarios.kit import SOON, Store, waiting

pytestmark = pytest.mark.anyio
paid = Event[int]("removed.paid")
go = Event[int]("removed.go")


@activity
async def charge() -> int:
    """Its name is the name of the function."""
    return 1


@activity(name="removed.ship")
async def ship() -> int:
    """It has an explicit name."""
    return 1


async def plain() -> int:
    """A function that is called in place."""
    return 1


@workflow(name="removed.child")
def child() -> Durable[int]:
    """Ends at once."""
    yield from sleep(0)
    return 1


@workflow
def kid() -> Durable[int]:
    """The same, under the name of the function."""
    yield from sleep(0)
    return 1


def collected() -> Durable[int]:
    """A child that is spawned and whose result is awaited."""
    handle = yield from spawn(child(), id="the-child")
    return (yield from handle.result())


def stopped() -> Durable[None]:
    """A child that is spawned and cancelled."""
    handle = yield from spawn(child(), id="the-child")
    yield from handle.cancel()


# The steps, and the names by which `removed` refers to them.
STEPS: dict[str, tuple[Any, list[str]]] = {
    "activity": (charge, ["charge"]),
    "named activity": (ship, ["removed.ship"]),
    "call": (lambda: call(plain), ["plain"]),
    "named call": (lambda: call(plain, name="gone"), ["gone"]),
    "child": (kid, ["kid"]),
    "named child": (child, ["removed.child"]),
    "spawn": (lambda: spawn(child()), ["removed.child"]),
    "result": (collected, ["removed.child", "the-child"]),
    "cancel": (stopped, ["removed.child", "the-child"]),
    "event": (paid.wait, ["removed.paid"]),
    "event with a key": (lambda: paid.wait("eu"), ["removed.paid[eu]"]),
    "send": (lambda: paid.send(1), ["removed.paid"]),
    "send with a key": (lambda: paid.send(1, key="eu"), ["removed.paid[eu]"]),
    "sleep": (lambda: sleep(0.001), ["timer"]),
    "sleep_until": (lambda: sleep_until(now() + timedelta(milliseconds=1)), ["timer"]),
    "pause": (lambda: pause(returns=int), ["pause"]),
}


def version(step: Any, names: list[str] | None) -> WorkflowDef[[], int]:
    """The workflow with its steps, or with names instead of them."""

    @workflow(name="removed.body")
    def body() -> Durable[int]:
        if names is None:
            yield from step()
        else:
            for name in names:
                yield from removed(name)
        return (yield from go.wait())

    return body


@pytest.mark.parametrize("what", STEPS)
async def test_step_is_removed_by_the_name_that_the_docs_say(store: Store, what: str) -> None:
    """A run that recorded a step continues if that name is removed, and is parked if another name is."""
    step, names = STEPS[what]
    old = version(step, None)
    async with WorkflowEngine(store, workflows=[old, child, kid]) as engine:
        await engine.start(old(), id="w")
        if what.startswith("event"):
            await engine.send_event(paid, 1, to="w", key="eu" if "key" in what else None)
        if what == "pause":
            await engine.pauses.resume("w", "0", 1)
        while (await waiting(engine, "w", "event")).name != go.name:
            pass
        assert [entry.name for entry in await engine.runs.history("w")] == names
    wrong = version(step, ["another"])
    async with WorkflowEngine(store, workflows=[wrong, child, kid]) as engine:
        assert "asks: removed another" in ((await engine.runs.describe("w")).problem or "")
    new = version(step, names)
    async with WorkflowEngine(store, workflows=[new, child, kid]) as engine:
        await engine.send_event(go, 7, to="w")
        assert await engine.handle("w").result(timeout=SOON) == 7
