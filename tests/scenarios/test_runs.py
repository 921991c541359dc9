"""Queries of an operator: lists with pages, counts, histories, descriptions, purges and dead letters."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from durable import (
    DeadLetterNotFound,
    Delivered,
    Durable,
    EntryKind,
    EntryStatus,
    Event,
    HistoryEntry,
    Queued,
    Retry,
    WorkflowEngine,
    WorkflowNotFound,
    WorkflowStatus,
    activity,
    activity_info,
    gather,
    sleep,
    workflow,
)
from durable.testing.clock import NOON, ManualClock
from tests.scenarios.kit import SOON, Store, move

pytestmark = pytest.mark.anyio
answer = Event[int]("runs-answer")
extra = Event[str]("runs-extra")


@activity
async def add_one(number: int) -> int:
    """Some work."""
    return number + 1


@workflow(name="runs-wait")
def wait_for_answer() -> Durable[int]:
    """Wait for a number."""
    return (yield from add_one((yield from answer.wait())))


@workflow(name="runs-at-once")
def at_once(number: int) -> Durable[int]:
    """Nothing to wait for."""
    yield from sleep(0)
    return number


@workflow(name="runs-family")
def family() -> Durable[list[int]]:
    """A parent of one child that waits and one that does not."""
    return list((yield from gather(at_once(1).with_id("child-done"), wait_for_answer().with_id("child-waits"))))


async def test_list_pages_through_everything_newest_first(store: Store) -> None:
    """Each page starts after the last id of the one before, and together they hold everything, each run once."""
    async with WorkflowEngine(store) as engine:
        for number in range(25):
            await engine.start(at_once(number), id=f"w{number}")
        seen: list[str] = []
        while page := await engine.runs.list(limit=10, after=seen[-1] if seen else None):
            seen += [run.id for run in page]
            assert len(page) <= 10
        assert seen == [f"w{number}" for number in reversed(range(25))]


async def test_list_and_count_filter(store: Store) -> None:
    """Status, several statuses, name, tag and age filter lists and counts alike."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine:
        await engine.start(at_once(1), id="old", tags=["red", "blue", "red"])
        await move(engine, clock, timedelta(hours=1))
        await engine.start(wait_for_answer(), id="open", tags=["red"])
        await engine.start(wait_for_answer(), id="ended")
        await engine.terminate("ended")
        ends = (WorkflowStatus.SUCCEEDED, WorkflowStatus.CANCELLED)
        cases: list[tuple[dict[str, Any], list[str]]] = [
            ({}, ["ended", "open", "old"]),
            ({"status": WorkflowStatus.SUSPENDED}, ["open"]),
            ({"status": ends}, ["ended", "old"]),
            ({"name": "runs-wait"}, ["ended", "open"]),
            ({"tag": "red"}, ["open", "old"]),
            ({"tag": "blue", "status": WorkflowStatus.SUCCEEDED}, ["old"]),
            ({"tag": "%"}, []),
            ({"name": "' OR 1=1 --"}, []),
            ({"since": NOON + timedelta(minutes=1)}, ["ended", "open"]),
            ({"until": NOON}, ["old"]),
            ({"since": NOON, "until": NOON + timedelta(hours=1)}, ["ended", "open", "old"]),
            ({"id_prefix": "o"}, ["open", "old"]),
            ({"id_prefix": "_"}, []),
            ({"id_prefix": "o", "name": "runs-wait", "status": WorkflowStatus.SUSPENDED}, ["open"]),
            ({"parent": "old"}, []),
            ({"parent": "nobody"}, []),
        ]
        for filters, ids in cases:
            assert [run.id for run in await engine.runs.list(**filters)] == ids
            assert [run.id async for run in engine.runs.scan(**filters)] == ids
            assert await engine.runs.count(**filters) == len(ids)
        (old,) = await engine.runs.list(tag="blue")
        assert (old.tags, old.created_at, old.finished_at) == (("red", "blue"), NOON, NOON)


async def test_children_are_listed_by_their_parent(store: Store) -> None:
    """`parent` lists the children of one run, ended or not, and no others."""
    async with WorkflowEngine(store) as engine:
        await engine.start(family(), id="one")
        await engine.start(at_once(1), id="other")
        children = await engine.runs.list(parent="one")
        assert [(run.id, run.parent) for run in children] == [("child-waits", "one"), ("child-done", "one")]
        assert await engine.runs.count(parent="one", status=WorkflowStatus.SUCCEEDED) == 1


async def test_scan_reads_page_after_page(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It brings every run once, leaves out later ones, survives a purge between pages, and stops at its limit."""
    monkeypatch.setattr("durable.engine.api.runs._SCAN_PAGE", 4)
    async with WorkflowEngine(store) as engine:
        for number in range(10):
            await engine.start(at_once(number), id=f"w{number}")
        ids = [f"w{number}" for number in reversed(range(10))]
        seen = []
        async for run in engine.runs.scan():
            seen.append(run.id)
            if len(seen) == 1:
                await engine.start(at_once(0), id="later")
        assert seen == ids
        for limit in (1, 4, 6, 8, 99):
            assert [run.id async for run in engine.runs.scan(id_prefix="w", limit=limit)] == ids[:limit]
        scan = engine.runs.scan()
        first = await anext(scan)
        assert await engine.runs.purge(0) == 11
        assert [first.id] + [run.id async for run in scan] == ["later", "w9", "w8", "w7"]
        with pytest.raises(ValueError, match="limit"):
            engine.runs.scan(limit=0)


async def test_bad_filters_are_refused(store: Store) -> None:
    """Senseless limits, ages, statuses and cursors are refused by name, not passed to the store."""
    async with WorkflowEngine(store) as engine:
        for limit in (0, -1, 1001, 10**9):
            with pytest.raises(ValueError, match="limit"):
                await engine.runs.list(limit=limit)
            with pytest.raises(ValueError, match="limit"):
                await engine.dead_letters.list(limit=limit)
        wrong: list[dict[str, Any]] = [
            {"limit": True}, {"limit": 1.5}, {"limit": "1"}, {"status": "running"}, {"status": 5}, {"since": 5},
            {"since": NOON.replace(tzinfo=None)}, {"name": 5}, {"tag": b"x"}, {"after": 5},
            {"until": 5}, {"id_prefix": 5}, {"parent": 5},
        ]  # fmt: skip
        for filters in wrong:
            with pytest.raises(TypeError):
                await engine.runs.list(**filters)
        with pytest.raises(WorkflowNotFound):
            await engine.runs.list(after="nobody")
        with pytest.raises(TypeError):
            await engine.dead_letters.list(after="x")  # type: ignore[arg-type]


async def test_history_shows_recorded_results(store: Store) -> None:
    """Entries are in order with position, kind, name, outcome and time, before and after the end."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine:
        handle = await engine.start(wait_for_answer(), id="a")
        assert await engine.runs.history("a") == []
        await engine.send_event(answer, 5, to="a")
        assert await handle.result(timeout=SOON) == 6
        entries = await engine.runs.history("a")
    rows = [
        (entry.seq, entry.position, entry.kind, entry.name, entry.status, entry.outcome, entry.at) for entry in entries
    ]
    assert rows == [
        (1, "0", EntryKind.EVENT, "runs-answer", EntryStatus.OK, "5", NOON),
        (2, "1", EntryKind.ACTIVITY, "add_one", EntryStatus.OK, "6", NOON),
    ]


async def test_describe_tells_what_a_workflow_waits_for(store: Store) -> None:
    """A description has kind, name, since, until and source line of every open wait, and the size of the mailbox."""
    clock = ManualClock()

    @workflow(name="several-waits")
    def body() -> Durable[None]:
        yield from gather(sleep(60), answer.wait("k"))

    async with WorkflowEngine(store, workflows=[body], clock=clock) as engine:
        await engine.start(body(), id="a", tags=["t"])
        await engine.send_event(extra, "x", to="a")
    clock.advance(1)
    async with WorkflowEngine(store, workflows=[body], clock=clock) as engine:
        description = await engine.runs.describe("a")
    timer, event = sorted(description.waits, key=lambda wait: wait.position)
    assert (timer.kind, timer.position, timer.until) == ("timer", "0.0.0", NOON + timedelta(seconds=60))
    assert (event.kind, event.name, event.since, event.until) == ("event", "runs-answer[k]", NOON, None)
    assert "test_runs.py" in (event.source or "")
    assert (description.pending_events, description.summary.tags, description.summary.status) == (
        1,
        ("t",),
        WorkflowStatus.SUSPENDED,
    )
    assert (description.history_length, description.round, description.park_reason, description.cancel_requested) == (
        0,
        0,
        None,
        False,
    )


async def test_purge_removes_what_ended_long_ago(store: Store) -> None:
    """Only workflows that ended before the age are removed, with all their rows; their ids are free again."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine:
        await engine.start(wait_for_answer(), id="open")
        for number in range(3):
            await engine.start(at_once(number), id=f"old{number}")
        await move(engine, clock, timedelta(hours=2))
        await engine.start(at_once(9), id="young")
        assert await engine.runs.purge(timedelta(hours=1)) == 3
        assert [run.id for run in await engine.runs.list()] == ["young", "open"]
        assert await engine.query_status("old0") is None
        with pytest.raises(WorkflowNotFound):
            await engine.handle("old0").result(timeout=SOON)
        assert await (await engine.start(wait_for_answer(), id="old0")).status() is WorkflowStatus.SUSPENDED
        for bad in (-1, float("nan")):
            with pytest.raises(ValueError):
                await engine.runs.purge(bad)


@activity(retry=Retry(max_attempts=2, first_delay=0))
async def weigh(item: str) -> dict[str, Any]:
    """Some work that fails once."""
    if activity_info().attempt == 1:
        raise KeyError(item)
    return {"item": item, "grams": [5, 7]}


@workflow(name="weighing")
def weighing() -> Durable[int]:
    """Runs it."""
    return len((yield from weigh("tea")))


async def test_history_has_decoded_values(store: Store) -> None:
    """The outcome of a step, also of a failed attempt, is plain data; the stored text is there too."""
    async with WorkflowEngine(store) as engine:
        handle = await engine.start(weighing(), id="w")
        assert await handle.result(timeout=SOON) == 2
        failed, done = await engine.runs.history("w")
        assert done.value == json.loads(done.outcome) == {"item": "tea", "grams": [5, 7]}
        assert (failed.value["type"], failed.value["args"]) == ("builtins.KeyError", ["tea"])


def test_history_of_a_damaged_row_can_be_looked_at() -> None:
    """Stored text that is not JSON is shown as it is."""
    entry = HistoryEntry(1, "0", EntryKind.ACTIVITY, "weigh", EntryStatus.OK, "{", 0)
    assert entry.value == "{"


async def test_dead_letters_can_be_sent_again_or_removed(store: Store) -> None:
    """Letters are listed in pages; a replayed one wakes a waiter, a removed one is gone, and both work only once."""
    async with WorkflowEngine(store) as engine:
        await engine.start(wait_for_answer(), id="dead")
        for number in range(5):
            assert await engine.send_event(answer, number, to="dead", key="k") == Queued()
        await engine.terminate("dead")
        first = await engine.dead_letters.list(limit=3)
        second = await engine.dead_letters.list(limit=3, after=first[-1].id)
        letters = first + second
        assert [letter.payload for letter in letters] == [0, 1, 2, 3, 4]
        assert {(letter.workflow_id, letter.name, letter.event_key) for letter in letters} == {
            ("dead", "runs-answer", "k")
        }
        await engine.start(family(), id="p")

        @workflow(name="keyed")
        def keyed() -> Durable[int]:
            return (yield from answer.wait("k"))

        handle = await engine.start(keyed(), id="next")
        assert await engine.dead_letters.replay(letters[2].id) == Delivered(("next",))
        assert await handle.result(timeout=SOON) == 2
        assert await engine.dead_letters.replay(letters[3].id, to="p") == Queued()
        await engine.dead_letters.remove(letters[4].id)
        for gone in letters[2:]:
            with pytest.raises(DeadLetterNotFound):
                await engine.dead_letters.replay(gone.id)
        assert [letter.id for letter in await engine.dead_letters.list()] == [letters[0].id, letters[1].id]
