"""Workflows whose rows are damaged: which lists show them, and what happens to those that had ended."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from durable import Durable, WorkflowEngine, WorkflowStatus, sleep, workflow
from tests.scenarios.kit import SOON, query
from tests.scenarios.test_damaged_rows import Damage, do_damage
from tests.scenarios.test_unreadable_workflows import DAMAGES, build

pytestmark = pytest.mark.anyio


@workflow(name="damaged.seven")
def seven() -> Durable[int]:
    """Ends at once."""
    yield from sleep(0)
    return 7


async def ended(file: Path, column: str, value: str, id: str = "done") -> None:
    """A workflow that succeeded with 7, and whose row was damaged afterwards."""
    async with WorkflowEngine(file) as engine:
        assert await (await engine.start(seven(), id=id)).result(timeout=SOON) == 7
    do_damage(file, "workflow", [Damage(id, column, value, f"id = '{id}'")])


async def test_unreadable_workflow_is_in_the_lists_of_its_shown_status(file: Path) -> None:
    """A list or count of one status has exactly the workflows that are shown with it, page by page."""
    await ended(file, "tags", "'{'")
    await build(file, *DAMAGES)
    async with WorkflowEngine(file) as engine:
        parked = await engine.runs.list(status=WorkflowStatus.PARKED, limit=1)
        while page := await engine.runs.list(status=WorkflowStatus.PARKED, limit=4, after=parked[-1].id):
            parked += page
        everything = await engine.runs.list()
        assert len(everything) == len(DAMAGES) + 2
        for status in WorkflowStatus:
            shown = [run.id for run in everything if run.status is status]
            listed = parked if status is WorkflowStatus.PARKED else await engine.runs.list(status=status)
            assert [run.id for run in listed] == shown
            assert await engine.runs.count(status=status) == len(shown)


async def test_mended_row_leaves_the_list_of_parked_ones(file: Path) -> None:
    """A row that is repaired under a running engine is listed with its stored status again."""
    await build(file, ("tags", "'{'"), ("parent_place", "'x:1'"), ("tags", "'[\"\"]'"), ("parent_place", "''"))
    async with WorkflowEngine(file) as engine:
        assert await engine.runs.count(status=WorkflowStatus.PARKED) == 4
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("UPDATE workflow SET tags = '[]', parent_place = NULL")
        assert await engine.runs.list(status=WorkflowStatus.PARKED) == []
        assert await engine.runs.count(status=WorkflowStatus.SUSPENDED) == 5


@pytest.mark.parametrize(("column", "value"), [("tags", "'{'"), ("crashes", "-1"), ("wake_at", "'soon'")])
async def test_terminate_keeps_the_end_of_an_unreadable_workflow(file: Path, column: str, value: str) -> None:
    """A run that had ended before its row was damaged keeps its status and result, and its row is repaired."""
    await ended(file, column, value)
    async with WorkflowEngine(file) as engine:
        assert await engine.query_status("done") is WorkflowStatus.PARKED
        assert await engine.terminate("done", "enough") is False
        assert await engine.query_status("done") is WorkflowStatus.SUCCEEDED
        assert await engine.handle("done").result(timeout=SOON) == 7
    async with WorkflowEngine(file) as engine:
        assert await engine.query_result("done") == 7
        assert await engine.runs.count(status=WorkflowStatus.PARKED) == 0


@pytest.mark.parametrize("column", ["status", "result", "finished_at"])
async def test_terminate_gives_up_an_end_that_cannot_be_read(file: Path, column: str) -> None:
    """If the end itself is damaged, nothing is kept and no result is invented."""
    await ended(file, column, "x'ff'")
    async with WorkflowEngine(file) as engine:
        assert await engine.terminate("done") is True
        assert await engine.query_status("done") is WorkflowStatus.CANCELLED


async def test_purge_takes_ended_workflows_with_damaged_rows(file: Path) -> None:
    """A purge removes a damaged row if its run had ended; a row whose end cannot be read stays."""
    await ended(file, "tags", "'{'", "a")
    await ended(file, "result", "x'ff'", "b")
    await ended(file, "depth", "-1", "c")
    async with WorkflowEngine(file) as engine:
        assert await engine.runs.purge(older_than=timedelta(0)) == 2
    assert query(file, "SELECT id FROM workflow") == [("b",)]
