"""Queries change nothing: not a status, not a row, even if the code is missing or does not fit."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from durable import (
    Durable,
    Event,
    PauseNotFound,
    WorkflowDef,
    WorkflowEngine,
    WorkflowParked,
    WorkflowStatus,
    gather,
    pause,
    publish,
    sleep,
    workflow,
)
from durable.errors import DurableError
from tests.scenarios.kit import contents, waiting

pytestmark = pytest.mark.anyio
go = Event[int]("reading-go")

LOOKS: dict[str, Callable[[WorkflowEngine], Awaitable[Any]]] = {
    "describe": lambda engine: engine.runs.describe("a"),
    "list": lambda engine: engine.runs.list(),
    "count": lambda engine: engine.runs.count(),
    "history": lambda engine: engine.runs.history("a"),
    "status": lambda engine: engine.query_status("a"),
    "result": lambda engine: engine.query_result("a"),
    "awaited result": lambda engine: engine.handle("a").result(timeout=0),
    "progress": lambda engine: engine.handle("a").progress(),
    "watch": lambda engine: engine.handle("a").watch().next(),
    "pauses": lambda engine: engine.pauses.list(),
    "answer of another type": lambda engine: engine.pauses.resume("a", "0.0.0", "no number"),
    "repair of nothing": lambda engine: engine.runs.repair("a", "7", 1, "no reason"),
    "repair of another type": lambda engine: engine.runs.repair("a", "0.2.0", {1, 2}, "no reason"),
    "dead letters": lambda engine: engine.dead_letters.list(),
    "schedules": lambda engine: engine.schedules.list(),
}


@workflow(name="reading-child")
def child() -> Durable[None]:
    """Waits."""
    yield from go.wait()


@workflow(name="reading-asks")
def asks() -> Durable[None]:
    """Asks a person, waits for an event, has taken an event, and has a child."""
    publish("asking")
    yield from gather(pause(returns=int, prompt="how many?"), go.wait("never"), go.wait("now"), child(), sleep(3600))


def _codes() -> dict[str, list[WorkflowDef[..., Any]]]:
    @workflow(name="reading-asks")
    def changed() -> Durable[None]:
        """Does something else."""
        yield from sleep(3600)

    return {"missing": [], "diverged": [changed, child], "there": [asks, child], "no child": [asks]}


CODES = _codes()


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("code", CODES)
async def test_looking_writes_nothing(file: Path, look: str, code: str) -> None:
    """With fitting code, other code or none, no query changes the store."""
    async with WorkflowEngine(file, workflows=[asks, child]) as engine:
        await engine.start(asks(), id="a")
        await waiting(engine, "a", "pause")
        await engine.send_event(go, 1, key="now", to="a")
    async with WorkflowEngine(file, workflows=CODES[code]) as engine:
        before = contents(file)
        with contextlib.suppress(DurableError, TimeoutError):
            await LOOKS[look](engine)
        assert contents(file) == before
        assert await engine.query_status("a") is WorkflowStatus.SUSPENDED


async def test_describe_says_that_the_code_is_missing(file: Path) -> None:
    """Without its code a suspended workflow stays suspended, and the description says that the code is missing."""
    async with WorkflowEngine(file, workflows=[asks, child]) as engine:
        await engine.start(asks(), id="a")
        assert (await engine.runs.describe("a")).problem is None
    async with WorkflowEngine(file, workflows=[]) as engine:
        description = await engine.runs.describe("a")
        assert (description.summary.status, description.park_reason, description.waits) == (
            WorkflowStatus.SUSPENDED,
            None,
            (),
        )
        assert "'reading-asks'" in (description.problem or "")
        with pytest.raises(WorkflowParked, match="reading-asks"):
            await engine.pauses.resume("a", "0.0.0", 1)
        # An engine that has to run it parks it.
        await engine.send_event(go, 1, key="now", to="a")
        parked = await engine.runs.describe("a")
        assert (parked.summary.status, parked.problem) == (WorkflowStatus.PARKED, parked.summary.parked)
        with pytest.raises(WorkflowParked, match="reading-asks"):
            await engine.pauses.resume("a", "0.0.0", 1)


async def test_describe_shows_what_new_code_would_wait_for(file: Path) -> None:
    """If new code fits but waits for something else, the description shows that wait, but does not register it."""
    async with WorkflowEngine(file, workflows=[asks, child]) as engine:
        await engine.start(asks(), id="a")
    async with WorkflowEngine(file, workflows=CODES["diverged"]) as engine:
        description = await engine.runs.describe("a")
        assert [wait.kind for wait in description.waits] == ["timer"]
        with pytest.raises(PauseNotFound):
            await engine.pauses.resume("a", "0.0.0", 1)
        assert len(await engine.pauses.list()) == 1
