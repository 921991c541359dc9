"""Events that their waiters cannot read become dead letters, and the waiters keep waiting."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_utils import Database

from durable import (
    DeadLetterReason,
    Delivered,
    Durable,
    Event,
    EventTypeMismatch,
    Queued,
    WorkflowEngine,
    WorkflowStatus,
    workflow,
)
from durable.backends.sqlite import schema
from durable.model.clock import SECOND
from tests.scenarios.kit import SOON, Store

numbers = Event[int]("poison.paid")
texts = Event[str]("poison.paid")
headlines = Event[str]("poison.news", consume_on_read=False)
figures = Event[int]("poison.news", consume_on_read=False)
COUNT = 100


@workflow(name="poison.payee")
def payee() -> Durable[int]:
    """Waits for a number."""
    return (yield from numbers.wait())


@workflow(name="poison.reader")
def reader() -> Durable[int]:
    """Waits for a figure."""
    return (yield from figures.wait())


@workflow(name="poison.editor")
def editor() -> Durable[str]:
    """Waits for a headline."""
    return (yield from headlines.wait())


EVERY = [payee, reader, editor]


@pytest.mark.anyio
async def test_unreadable_event_parks_no_workflow(store: Store) -> None:
    """One event of the wrong type becomes one dead letter; a hundred waiters and every newcomer keep waiting."""
    async with WorkflowEngine(store, workflows=EVERY) as engine:
        for number in range(COUNT):
            await engine.start(payee(), id=f"p-{number}")
    # No body is in memory now, so the expected type is unknown.
    async with WorkflowEngine(store, workflows=EVERY) as engine:
        assert await engine.send_event(texts, "poison") == Queued()
        await engine.start(payee(), id="newcomer")
        assert await engine.runs.count(status=WorkflowStatus.PARKED) == 0
        (letter,) = await engine.dead_letters.list()
        assert (letter.payload, letter.reason, letter.status) == ("poison", DeadLetterReason.UNREADABLE, None)
        assert letter.workflow_id == "p-0"
        assert "int" in (letter.detail or "")
        assert await engine.events.list() == []
        assert await engine.send_event(numbers, 7) == Delivered(("p-0",))
        assert await engine.send_event(numbers, 8, to="newcomer") == Delivered(("newcomer",))


@pytest.mark.anyio
@pytest.mark.parametrize("to", ["late", None])
async def test_unreadable_event_that_waits_for_its_waiter(store: Store, to: str | None) -> None:
    """Of events that arrived before the wait, the unreadable one becomes a letter and the next one is taken."""
    async with WorkflowEngine(store, workflows=EVERY) as engine:
        await engine.send_event(texts, "poison", to=to, allow_unstarted=True)
        await engine.send_event(numbers, 5, to=to, allow_unstarted=True)
        handle = await engine.start(payee(), id="late")
        assert await handle.result(timeout=SOON) == 5
        assert [letter.payload for letter in await engine.dead_letters.list()] == ["poison"]


@pytest.mark.anyio
@pytest.mark.parametrize("is_first", [True, False], ids=["pending", "direct"])
async def test_unreadable_broadcast_is_skipped(store: Store, is_first: bool) -> None:
    """Waiters that cannot read a broadcast skip it, with one dead letter; those that can read it get it, also later."""
    async with WorkflowEngine(store, workflows=EVERY) as engine:
        if is_first:
            await engine.send_event(headlines, "today")
        for number in range(3):
            await engine.start(reader(), id=f"r-{number}")
        early = await engine.start(editor(), id="early")
        if not is_first:
            assert await engine.send_event(headlines, "today") == Delivered(("early",))
        late = await engine.start(editor(), id="late")
        assert [await early.result(timeout=SOON), await late.result(timeout=SOON)] == ["today", "today"]
        assert [letter.is_broadcast for letter in await engine.dead_letters.list()] == [True]
        assert await engine.send_event(figures, 4) == Delivered(("r-0", "r-1", "r-2"))


@pytest.mark.anyio
async def test_unreadable_event_is_logged(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """One warning says which workflow could not read which event, and the line at which it waits."""
    async with WorkflowEngine(store, workflows=EVERY) as engine:
        await engine.send_event(texts, "poison")
        with caplog.at_level(logging.WARNING, "durable"):
            await engine.start(payee(), id="p")
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    fields = [getattr(record, name) for name in ("workflow_id", "workflow_name", "position")]
    assert fields == ["p", "poison.payee", "0"]
    assert "poison.paid" in record.getMessage()


@pytest.mark.anyio
@pytest.mark.parametrize("to", ["p", None])
async def test_send_of_another_type_is_refused(store: Store, to: str | None) -> None:
    """A sender whose payload the waiter in memory cannot read gets both types, and nothing is stored."""
    async with WorkflowEngine(store, workflows=EVERY) as engine:
        await engine.start(payee(), id="p")
        with pytest.raises(EventTypeMismatch, match=r"'poison.paid' was sent as str.* waits for it as int"):
            await engine.send_event(texts, "poison", to=to, event_id="once")
        assert (await engine.events.list(), await engine.dead_letters.list()) == ([], [])
        assert await engine.send_event(numbers, 1, to=to, event_id="once") == Delivered(("p",))


@pytest.mark.anyio
@pytest.mark.parametrize(
    "send",
    [
        lambda engine: engine.send_event(Event[int | None]("poison.paid"), 3),
        lambda engine: engine.send_event(Event("poison.paid"), 3),
        lambda engine: engine.send_event(texts, "for another", key="k"),
        lambda engine: engine.send_event(texts, "for another", to="other", allow_unstarted=True),
    ],
    ids=["readable", "untyped", "other key", "other workflow"],
)
async def test_send_that_may_be_read_is_accepted(
    store: Store, send: Callable[[WorkflowEngine], Delivered | Queued]
) -> None:
    """Another type is accepted if the event's waiter can read it, or if the event is for another workflow."""
    async with WorkflowEngine(store, workflows=EVERY) as engine:
        await engine.start(payee(), id="p")
        await send(engine)  # type: ignore[misc]
        assert await engine.dead_letters.list() == []


# A store of version 4: two workflows are parked because of one event that they cannot read.
_REST = "0, NULL, 0, 'unreadable', 'poison', '[]', 1, NULL"
_ROWS = "".join(
    f"""
    INSERT INTO workflow VALUES ({key}, 'p-{key}', 'poison.payee', 1, 'parked', '{{}}', '',
        {SECOND}, {SECOND}, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, '[]', {_REST});
    INSERT INTO event_wait VALUES ({key}, '0', 'poison.paid', '', 'all', {key + 2}, {SECOND}, NULL, NULL, NULL);
    """
    for key in (1, 2)
)
_ROWS += f"""
    INSERT INTO pending_event VALUES (5, 'poison.paid', '', NULL, NULL, '"poison"', {SECOND}, NULL, 1);
    INSERT INTO dead_letter VALUES (6, 'poison.paid', '', 'ended', '1', {SECOND}, {SECOND});
    UPDATE meta SET serial = 6;
"""


@pytest.mark.anyio
async def test_store_that_was_poisoned_heals(file: Path) -> None:
    """Workflows that an older durable parked for an event wait again after the upgrade, and the event is a letter."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        schema._migrations().apply(Database(connection), stop_before="m005_mail")
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 4")
        connection.execute("COMMIT")
        connection.executescript(_ROWS)
    async with WorkflowEngine(file, workflows=EVERY) as engine:
        assert await engine.runs.count(status=WorkflowStatus.PARKED) == 0
        letters = {letter.payload: letter.reason for letter in await engine.dead_letters.list()}
        # The event was sent in 1970, so a sweep may have removed it already.
        assert letters.keys() == {"poison", 1}
        assert letters[1] is DeadLetterReason.WORKFLOW_ENDED
        assert await engine.send_event(numbers, 9) == Delivered(("p-1",))
