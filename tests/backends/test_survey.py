"""The facts about a store from which a diagnosis is made."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from durable import Durable, Event, StoreUnusable, SyncWorkflowEngine, sleep, workflow
from durable.backends.sqlite import schema, survey
from durable.backends.sqlite.survey import IGNORED, LATE, SILENT, Group
from durable.model.clock import SystemClock
from durable.model.dead_letters import DeadLetterReason

price = Event[int]("survey-price")


@workflow(name="survey-nap")
def nap() -> Durable[None]:
    """Sleeps for an hour."""
    yield from sleep(3600)


@workflow(name="survey-quick")
def quick() -> Durable[None]:
    """Ends at once, and leaves its mail."""
    yield from sleep(0.05)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A closed store with three sleepers, an ended run with a dead letter, and an event that nobody takes."""
    path = tmp_path / "survey.db"
    with SyncWorkflowEngine(path, workflows=[nap, quick]) as engine:
        for number in range(3):
            engine.start(nap(), id=f"nap-{number}")
        handle = engine.start(quick(), id="quick")
        engine.send_event(price, 1, to="quick")
        handle.result()
        engine.send_event(price, 2)
        engine.send_event(price, 3, to="never", allow_unstarted=True)
    return path


def change(store: Path, sql: str, *values: object) -> None:
    """Change a closed store by hand."""
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute(sql, values)


def facts(store: Path, later: int = 0) -> survey.Contents:
    """The facts, as they are so many microseconds from now."""
    return survey.contents(str(store), SystemClock().now() + later)


def test_files_are_measured(store: Path) -> None:
    """Sizes, space and schema are those of the file, and nobody owns it. Nothing appears beside it."""
    before = sorted(os.listdir(store.parent))
    files = survey.files(str(store))
    assert (files.size, files.holder, files.log_size) == (store.stat().st_size, None, 0)
    assert files.schema_version == files.known_version == schema.SCHEMA_VERSION
    assert 0 < files.disk_free <= files.disk_size
    assert sorted(os.listdir(store.parent)) == before


def test_owner_is_named(store: Path) -> None:
    """A store that is in use has a holder, which is not disturbed."""
    with SyncWorkflowEngine(store, workflows=[nap]) as engine:
        assert str(os.getpid()) in (survey.files(str(store)).holder or "")
        assert survey.files(str(store)).log_size > 0
        assert engine.runs.count() == 4


def test_quiet_store_has_few_facts(store: Path) -> None:
    """In a store where all is well, only the dead letter stands out."""
    seen = facts(store)
    assert seen.is_clean
    assert seen.by_status == {"suspended": 3, "succeeded": 1}
    assert (seen.parked, seen.overdue, seen.silent, seen.suspects, seen.ignored_events) == ((), None, None, None, ())
    (letter,) = seen.dead_letters
    assert (letter.about, letter.count) == ("survey-price", 1)
    assert seen.latest is not None
    assert seen.latest <= seen.now


def test_late_timers_are_found(store: Path) -> None:
    """A run whose time is over is late after a minute; the oldest instant says how late."""
    hour = 3600 * 1_000_000
    assert facts(store, hour + LATE - 10_000_000).overdue is None
    late = facts(store, hour + LATE + 10_000_000).overdue
    assert late is not None
    assert (late.count, set(late.examples)) == (3, {"nap-0", "nap-1", "nap-2"})
    assert late.oldest is not None


def test_ignored_events_are_found(store: Path) -> None:
    """An event that was sent an hour ago to nobody, or to an id that never came, stands out, by name."""
    groups = facts(store, IGNORED + 10_000_000).ignored_events
    assert {(group.about, group.count) for group in groups} == {
        ("survey-price", 1),
        ("survey-price to an id that was never started", 1),
    }


def test_parked_runs_are_grouped_by_reason(store: Path) -> None:
    """Parked runs are counted by reason, the largest group first."""
    change(store, "UPDATE workflow SET status = 'parked', park_reason = 'diverged' WHERE id <> 'nap-0'")
    change(store, "UPDATE workflow SET status = 'parked', park_reason = 'unknown code' WHERE id = 'nap-0'")
    first, second = facts(store).parked
    assert (first.about, first.count) == ("diverged", 3)
    assert second == Group("unknown code", 1, ("nap-0",))


def test_suspects_and_crashes_are_found(store: Path) -> None:
    """Runs on trial are named, and so is an end that was not in order."""
    change(store, "INSERT INTO suspect SELECT key, 1 FROM workflow WHERE id = 'nap-1'")
    change(store, "UPDATE meta SET clean = 0")
    seen = facts(store)
    assert seen.suspects == Group("", 1, ("nap-1",))
    assert not seen.is_clean


def test_silent_runs_are_found(store: Path) -> None:
    """A running run without a deadline that has recorded nothing for an hour stands out."""
    change(store, "UPDATE workflow SET status = 'running', wake_at = NULL WHERE id = 'nap-2'")
    assert facts(store, SILENT - 10_000_000).silent is None
    silent = facts(store, SILENT + 10_000_000).silent
    assert silent is not None
    assert silent.examples == ("nap-2",)


def test_damage_is_looked_for_on_request(store: Path) -> None:
    """SQLite's own check runs only if it is asked for."""
    assert facts(store).damage is None
    assert survey.contents(str(store), 0, is_deep=True).damage == "ok"


def test_store_of_an_earlier_schema_has_files_only(tmp_path: Path) -> None:
    """The rows of an earlier schema are not read."""
    old = Path(__file__).parents[1] / "formats" / "stores" / "schema-7.db"
    assert survey.files(str(old)).schema_version == 7
    with pytest.raises(StoreUnusable):
        survey.contents(str(old), 0)


def test_every_reason_for_a_dead_letter_is_counted(store: Path) -> None:
    """Dead letters count whatever their reason is."""
    for number, reason in enumerate(DeadLetterReason):
        change(
            store,
            "INSERT INTO dead_letter (id, name, event_key, payload, sent_at, died_at, reason, broadcast) "
            "VALUES (?, 'other', '', 'null', 0, 0, ?, 0)",
            1000 + number,
            reason.value,
        )
    assert [(group.about, group.count) for group in facts(store).dead_letters] == [
        ("other", len(DeadLetterReason)),
        ("survey-price", 1),
    ]
