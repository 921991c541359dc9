"""Copies of workflows, made with SQL, are workflows like any other to the engine."""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bench.clones import CannotClone, clone, scattered
from bench.drivers.durable import STORE, go, sleeper, steps, waiter
from durable import WorkflowEngine, WorkflowStatus
from durable.model.clock import SECOND

COUNT = 20
IDS = [scattered("copy-", number) for number in range(COUNT)]
HOUR = 3600


def rows(path: Path, sql: str) -> list[tuple[int, ...]]:
    """Query a store that no engine has open."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


@pytest.mark.anyio
async def test_copies_that_wait_take_their_events(tmp_path: Path) -> None:
    """Each waiting copy is found by its id, takes the event sent to it, and ends. The original keeps waiting."""
    async with WorkflowEngine(tmp_path / STORE) as engine:
        await engine.start(waiter(), id="seed")
    clone(tmp_path / STORE, "seed", COUNT, prefix="copy-")
    async with WorkflowEngine(tmp_path / STORE) as engine:
        assert await engine.runs.count(status=WorkflowStatus.SUSPENDED) == COUNT + 1
        for number, id in enumerate(IDS):
            await engine.send_event(go, number, to=id)
        assert [await engine.handle(id).result() for id in IDS] == list(range(COUNT))
        assert await engine.query_status("seed") is WorkflowStatus.SUSPENDED


@pytest.mark.anyio
async def test_copies_have_their_own_numbers(tmp_path: Path) -> None:
    """No number is assigned twice, and an untargeted event goes to the longest wait."""
    path = tmp_path / STORE
    async with WorkflowEngine(path) as engine:
        await engine.start(waiter(), id="seed")
    clone(path, "seed", COUNT, prefix="copy-")
    numbers = rows(path, "SELECT key FROM workflow UNION ALL SELECT serial FROM event_wait")
    assert len(set(numbers)) == len(numbers) == 2 * (COUNT + 1)
    assert rows(path, "SELECT serial FROM meta") == [max(numbers)]
    async with WorkflowEngine(path) as engine:
        await engine.start(waiter(), id="later")
        for id in ("seed", *IDS, "later"):
            await engine.send_event(go, 1)
            assert await engine.handle(id).result() == 1


@pytest.mark.anyio
async def test_copies_that_sleep_wake_up(tmp_path: Path) -> None:
    """A copy that began an hour earlier is due an hour earlier, and wakes up. The original keeps sleeping."""
    path = tmp_path / STORE
    async with WorkflowEngine(path) as engine:
        await engine.start(sleeper(HOUR), id="seed")
    clone(path, "seed", COUNT, prefix="copy-", shift=-HOUR * SECOND)
    async with WorkflowEngine(path) as engine:
        for id in IDS:
            await engine.handle(id).result()
        assert await engine.query_status("seed") is WorkflowStatus.SUSPENDED


@pytest.mark.anyio
async def test_copies_of_a_finished_run_can_be_read(tmp_path: Path) -> None:
    """A copy has the result, the history and the tags of the original."""
    path = tmp_path / STORE
    async with WorkflowEngine(path) as engine:
        await (await engine.start(steps(3), id="seed", tags=["vip"])).result()
    clone(path, "seed", COUNT, prefix="copy-")
    async with WorkflowEngine(path) as engine:
        assert await engine.handle(IDS[7]).result() == 3
        assert await engine.runs.history(IDS[7]) == await engine.runs.history("seed")
        assert await engine.runs.count(tag="vip") == COUNT + 1


@pytest.mark.anyio
async def test_copies_of_unknown_workflows_and_mailboxes_are_refused(tmp_path: Path) -> None:
    """A workflow that does not exist, or that has mail, is refused, and nothing is written."""
    path = tmp_path / STORE
    async with WorkflowEngine(path) as engine:
        await engine.start(sleeper(HOUR), id="seed")
        await engine.send_event(go, 1, to="seed")
    with pytest.raises(CannotClone, match="mailbox of 'seed'"):
        clone(path, "seed", COUNT, prefix="copy-")
    with pytest.raises(CannotClone, match="'other' does not exist"):
        clone(path, "other", COUNT, prefix="copy-")
    assert rows(path, "SELECT count(*) FROM workflow") == [(1,)]


def test_scattered_ids_differ_and_have_no_order() -> None:
    """Neighbours lie far apart, and no two numbers have the same id."""
    ids = [scattered("x", number) for number in range(5_000)]
    assert len(set(ids)) == len(ids)
    places = {id: place for place, id in enumerate(sorted(ids))}
    far = [abs(places[id] - places[next_id]) > 100 for id, next_id in itertools.pairwise(ids)]
    assert sum(far) > 0.9 * len(far)
