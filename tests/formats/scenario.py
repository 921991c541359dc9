"""A store with one of everything: how it is written, and how an engine of today finishes it.

`python -m tests.formats.scenario NAME` writes `stores/NAME.db` with the code at hand. Do that once for each format that
is released, and never again for the same name.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import anyio

from durable import (
    CannotRetry,
    Overlap,
    WorkflowCancelled,
    WorkflowEngine,
    WorkflowFailed,
    WorkflowNotFound,
    WorkflowStatus,
)
from durable.testing.clock import ManualClock
from tests.formats import flows
from tests.formats.flows import LAMP, go, news

STORES = Path(__file__).with_name("stores")
WRITTEN = datetime(2031, 5, 17, 12, 0, tzinfo=timezone.utc)
FINISHED = WRITTEN + timedelta(hours=3)


@contextlib.asynccontextmanager
async def opened(path: Path, clock: ManualClock) -> AsyncIterator[WorkflowEngine]:
    """An engine on the store, in virtual time."""
    async with WorkflowEngine(path, workflows=flows.WORKFLOWS, clock=clock) as engine:
        yield engine


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition holds. Only for writing a store: a test has something better to wait for."""
    while True:
        with contextlib.suppress(WorkflowNotFound):
            if await check():
                return
        await anyio.sleep(0.001)


async def reached(engine: WorkflowEngine, id: str, *positions: str) -> None:
    """Wait until a workflow waits at these positions."""

    async def is_there() -> bool:
        return {wait.position for wait in (await engine.runs.describe(id)).waits} == set(positions)

    await until(is_there)


async def write(path: Path) -> None:
    """Bring a workflow of each kind to where it waits, and leave."""
    clock = ManualClock(WRITTEN)
    async with opened(path, clock) as engine:
        await write_waiting(engine, clock)
        await write_ended(engine)
        await write_mail(engine)
        await engine.schedules.create("formats-daily", flows.sleeping(1), cron="0 9 * * *", overlap=Overlap.SKIP)


async def write_waiting(engine: WorkflowEngine, clock: ManualClock) -> None:
    """Workflows that wait."""
    await engine.start(flows.asking(), id="asking")
    await reached(engine, "asking", "0")
    clock.advance(2)
    await engine.start(flows.waiting(LAMP), id="waiting", tags=["formats", "eu"])
    await engine.start(flows.sleeping(7200), id="sleeping")
    await engine.start(flows.sleeping(60), id="delayed", delay=3600)
    await engine.start(flows.branches(), id="branches")
    await engine.start(flows.family(), id="family")
    await engine.start(flows.rounds(), id="rounds")
    await engine.start(flows.endless(2), id="endless")
    await engine.start(flows.owing(), id="owing")
    await engine.start(flows.owing(), id="owing-cancelled")
    await engine.start(flows.retrying(), id="retrying")
    await engine.start(flows.listening(), id="listening")
    await engine.start(flows.foreign(), id="foreign")
    for name in ("mended-source", "mended-repaired"):
        await engine.start(flows.mended(), id=name)
    for name, position in {"waiting": "2", "asking": "1", "foreign": "1", "mended-source": "2"}.items():
        await reached(engine, name, position)
    for name in ("family-kept", "family-tied", "family-awaited"):
        await reached(engine, name, "0")
    await reached(engine, "mended-repaired", "2")
    await engine.runs.fork("mended-source", "1", new_id="mended-fork")
    await engine.runs.repair("mended-repaired", "0", 77, "the value was wrong")

    async def only_one_retries() -> bool:
        running = await engine.runs.list(status=WorkflowStatus.RUNNING)
        return [run.id for run in running] == ["retrying"] and bool(await engine.runs.history("retrying"))

    await until(only_one_retries)


async def write_ended(engine: WorkflowEngine) -> None:
    """Workflows that have ended, in each way."""
    await (await engine.start(flows.sleeping(0), id="succeeded")).result()
    failing = await engine.start(flows.failing_child(), id="failed")
    with contextlib.suppress(WorkflowFailed):
        await failing.result()
    cancelled = await engine.start(flows.child("never"), id="cancelled")
    await engine.cancel("cancelled", "nobody needs it")
    with contextlib.suppress(WorkflowCancelled):
        await cancelled.result()
    stumbling = await engine.start(flows.stumbling(), id="stumbling")
    with contextlib.suppress(WorkflowFailed):
        await stumbling.result()
    with contextlib.suppress(CannotRetry):
        await engine.runs.retry("stumbling")


async def write_mail(engine: WorkflowEngine) -> None:
    """Events that wait for a workflow, that were taken, and that no workflow took."""
    await engine.send_event(go, "early", to="unborn", allow_unstarted=True)
    await engine.send_event(go, "kept", key="waiting-mail", to="waiting", event_id="formats-1")
    await engine.send_event(go, "untargeted", key="nobody")
    await engine.send_event(news, "first news")
    await engine.start(flows.child("letter"), id="letters")
    await engine.send_event(go, "never taken", key="elsewhere", to="letters")
    await engine.terminate("letters", "to leave a letter")


# --- finishing ------------------------------------------------------------------------------------------------------


async def finish(path: Path) -> dict[str, Any]:
    """How every workflow of a store ends under the code of today, and what is left beside them."""
    clock = ManualClock(FINISHED)
    async with opened(path, clock) as engine:
        before = {run.id: run.status.name for run in await engine.runs.list(limit=1000)}
        letters = [(letter.name, letter.payload_json) for letter in await engine.dead_letters.list()]
        await feed(engine)
        clock.advance(timedelta(days=2))
        ends = {id: await end_of(engine, id) for id in sorted(before) if not id.startswith("formats-daily@")}
        ends["unborn"] = await end_of(engine, (await engine.start(flows.branches(), id="unborn")).id, is_fed=False)
        schedules = [
            (schedule.name, schedule.cron, schedule.overlap.name) for schedule in await engine.schedules.list()
        ]
        histories = {
            id: [(entry.seq, entry.kind.name, entry.name, entry.status.name) for entry in await engine.runs.history(id)]
            for id in ("mended-fork", "mended-repaired", "waiting", "owing-cancelled")
        }
    return {"before": before, "ends": ends, "letters": letters, "schedules": schedules, "histories": histories}


async def feed(engine: WorkflowEngine) -> None:
    """Send every workflow what it waits for."""
    await engine.send_event(go, "one", to="waiting")
    await engine.send_event(go, "two", to="waiting", key="key")
    await engine.send_event(go, "r", to="branches", key="right")
    await engine.send_event(go, "b", to="branches", key="both")
    for name in ("kept", "awaited"):
        await engine.send_event(go, name, to=f"family-{name}", key=name)
    await engine.send_event(go, "", to="rounds", key="rounds")
    await engine.send_event(go, "last", to="endless", key="endless")
    await engine.send_event(go, "owed", to="owing", key="owing")
    await engine.cancel("owing-cancelled", "too late")
    await engine.send_event(news, "second news")
    await engine.send_event(go, "f", to="foreign", key="foreign")
    for name in ("source", "repaired", "fork"):
        await engine.send_event(go, "", to=f"mended-{name}", key="mended")
    (question,) = await engine.pauses.list()
    await engine.pauses.resume(question.workflow_id, question.pause_id, LAMP)


async def end_of(engine: WorkflowEngine, id: str, *, is_fed: bool = True) -> Any:
    """The result of a workflow, or its error."""
    if not is_fed:
        return [event.payload for event in await engine.events.list(to=id)]
    try:
        return await engine.handle(id).result()
    except WorkflowFailed as error:
        return ["failed", type(error.__cause__).__name__, str(error.__cause__), vars(error.__cause__).get("code")]
    except WorkflowCancelled as error:
        return ["cancelled", str(error)]


if __name__ == "__main__":
    target = STORES / f"{sys.argv[1]}.db"
    target.parent.mkdir(exist_ok=True)
    anyio.run(write, target)
