"""A workflow whose row cannot be read is shown as parked, can be described and ended, and continues once repaired."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from durable import (
    CodecError,
    Durable,
    Event,
    ParkReason,
    RecoveryReport,
    Retry,
    WorkflowCancelled,
    WorkflowEngine,
    WorkflowParked,
    WorkflowStatus,
    activity,
    sleep,
    workflow,
)
from tests.scenarios.kit import SOON, contents, query, waiting
from tests.scenarios.test_damaged_rows import Damage, do_damage

pytestmark = pytest.mark.anyio
go = Event[int]("unreadable.go")


@workflow(name="unreadable.waiter")
def waiter() -> Durable[int]:
    """Waits a little, and then for an event."""
    yield from sleep(0.0001)
    return (yield from go.wait())


@activity(retry=Retry(max_attempts=5, first_delay=3600, max_delay=3600))
async def fail() -> None:
    """Fails, and is tried again in an hour."""
    raise ValueError("not now")


@workflow(name="unreadable.failing")
def failing() -> Durable[None]:
    """Has an activity that fails."""
    yield from fail()


DAMAGES = [
    ("status", "'garbage'"), ("status", "x'ff'"), ("tags", "'{'"), ("tags", "'5'"), ("wake_at", "-9223372036854775808"),
    ("wake_at", "'soon'"), ("input", "x'ff00'"), ("name", "NULL"), ("cursors", "'[1]'"), ("parent_place", "'no where'"),
    ("version", "-1"), ("created_at", "1.5"), ("park_reason", "'whim'"), ("round", "NULL"), ("error", "x'ff'"),
]  # fmt: skip


async def build(file: Path, *damages: tuple[str, str]) -> list[str]:
    """A workflow for each damage, and an undamaged one; the ids of the former."""
    ids = [f"bad-{number}" for number in range(len(damages))]
    async with WorkflowEngine(file) as engine:
        for id in (*ids, "good"):
            await engine.start(waiter(), id=id, tags=["red"])
            await waiting(engine, id, "event")
    rows = zip(ids, damages, strict=True)
    do_damage(file, "workflow", [Damage(id, column, value, f"id = '{id}'") for id, (column, value) in rows])
    return ids


async def test_unreadable_workflow_is_listed_as_parked(file: Path) -> None:
    """Lists show as many as are counted; a damaged one is parked, and its detail names the column."""
    ids = await build(file, *DAMAGES)
    async with WorkflowEngine(file) as engine:
        listed = {run.id: run for run in await engine.runs.list()}
        assert len(listed) == await engine.runs.count() == len(ids) + 1
        assert await engine.runs.list(after="bad-1", limit=3)
        for id, (column, _) in zip(ids, DAMAGES, strict=True):
            assert listed[id].status is await engine.query_status(id) is WorkflowStatus.PARKED
            seen = await engine.runs.describe(id)
            assert seen.park_reason is ParkReason.UNREADABLE
            assert f"its row cannot be read: {column} (" in (seen.summary.parked or "")
            assert len(await engine.runs.history(id)) == 1
        await engine.send_event(go, 5, to="good")
        assert await engine.handle("good").result(timeout=SOON) == 5


async def test_recovery_counts_what_it_cannot_read(file: Path) -> None:
    """A workflow that ran and whose row is damaged is counted as parked, and nothing of it runs."""
    await build(file, ("tags", "'{'"), ("cursors", "'[1]'"))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE workflow SET status = 'running' WHERE id LIKE 'bad-%'")
    async with WorkflowEngine(file) as engine:
        assert engine.recovery == RecoveryReport(parked=2)


async def test_unreadable_workflow_is_not_cancelled(file: Path) -> None:
    """It may owe undos that cannot be read. The refusal names the damage, and nothing is written."""
    ids = await build(file, *DAMAGES)
    before = contents(file)["workflow"]
    async with WorkflowEngine(file) as engine:
        for id in ids:
            with pytest.raises(WorkflowParked, match="repair it in the store, or terminate the workflow"):
                await engine.cancel(id, "enough")
    assert contents(file)["workflow"] == before


async def test_unreadable_workflow_can_be_ended(file: Path) -> None:
    """Ending it writes a sound row, which the next engine reads; the readable parts are kept."""
    ids = await build(file, *DAMAGES)
    async with WorkflowEngine(file) as engine:
        for id in ids:
            assert await engine.terminate(id, "enough") is True
    async with WorkflowEngine(file) as engine:
        for id in ids:
            seen = await engine.runs.describe(id)
            assert (seen.summary.status, seen.park_reason) == (WorkflowStatus.CANCELLED, None)
            assert await engine.terminate(id, "again") is False
    assert query(file, "SELECT count(*) FROM workflow WHERE status = 'cancelled' AND finished_at > 0")[0] == (len(ids),)
    assert ("bad-6", "unreadable.waiter", "{}", '["red"]') in query(file, "SELECT id, name, input, tags FROM workflow")


@pytest.mark.parametrize("is_clean", [True, False])
async def test_unreadable_workflow_is_left_alone_until_it_is_mended(file: Path, is_clean: bool) -> None:
    """However often an engine starts, it neither runs nor changes it; with its row repaired it continues."""
    await build(file, ("tags", "'{'"), ("crashes", "-5"))
    before = contents(file)["workflow"]
    for _ in range(4):
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("UPDATE meta SET clean = ?", (is_clean,))
        async with WorkflowEngine(file) as engine:
            with pytest.raises(CodecError):
                await engine.send_event(go, 5, to="bad-0")
    bad = [row for row in contents(file)["workflow"] if row in before]
    assert len(bad) >= 2
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE workflow SET tags = '[\"red\"]', crashes = 0")
    async with WorkflowEngine(file) as engine:
        for id in ("bad-0", "bad-1"):
            assert await engine.query_status(id) is WorkflowStatus.SUSPENDED
            await engine.send_event(go, 7, to=id)
            assert await engine.handle(id).result(timeout=SOON) == 7


async def test_pauses_of_an_unreadable_workflow_are_refused(file: Path) -> None:
    """Its questions are unknown, so an empty page would be wrong; pages of the others are returned."""
    (bad,) = await build(file, ("tags", "'{'"))
    async with WorkflowEngine(file) as engine:
        with pytest.raises(CodecError, match=f"workflow id '{bad}': its row cannot be read: tags"):
            await engine.pauses.list(workflow_id=bad)
        assert await engine.pauses.list(workflow_id="good") == await engine.pauses.list() == []


async def test_bad_entry_does_not_stop_describe(file: Path) -> None:
    """A workflow with an unreadable entry is described with the problem, is unchanged, and can be ended."""
    await build(file)
    do_damage(file, "history", [Damage("good", "kind", "'whim'", "seq = 1")])
    async with WorkflowEngine(file) as engine:
        for _ in range(2):
            seen = await engine.runs.describe("good")
            assert (seen.summary.status, seen.park_reason) == (WorkflowStatus.SUSPENDED, None)
            assert "'whim'" in (seen.problem or "")
        assert await engine.terminate("good") is True


async def test_unreadable_error_does_not_stop_describe(file: Path) -> None:
    """A description needs neither the text of the workflow's error nor that of a failed attempt."""
    async with WorkflowEngine(file) as engine:
        handle = await engine.start(failing(), id="w")
        await waiting(engine, "w", "activity", attempt=2)
        await engine.cancel("w")
        with pytest.raises(WorkflowCancelled):
            await handle.result(timeout=SOON)
        await engine.start(failing(), id="v")
        await waiting(engine, "v", "activity", attempt=2)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE workflow SET error = '5' WHERE id = 'w'")
        connection.execute("UPDATE history SET outcome = '5' WHERE status = 'retry'")
    async with WorkflowEngine(file) as engine:
        assert (await engine.runs.describe("w")).failed_undos == ()
        assert "not an error" in ((await waiting(engine, "v", "activity")).last_error or "")
