"""`backup`, `restore` and `migrate`: the store as a file."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from durable import StoreInUse, SyncWorkflowEngine, WorkflowStatus
from durable.backends.sqlite import maintenance, schema
from tests.cli.flows import nap
from tests.cli.kit import run

OLD = Path(__file__).parents[1] / "formats" / "stores" / "schema-7.db"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[SyncWorkflowEngine]:
    """A running engine on `naps.db` with one run."""
    with SyncWorkflowEngine(tmp_path / "naps.db", workflows=[nap]) as engine:
        engine.start(nap(), id="first")
        yield engine


def ids(path: Path) -> list[str]:
    """The ids of the runs in a store that nobody uses."""
    with SyncWorkflowEngine(path, workflows=[nap]) as engine:
        return [run.id for run in engine.runs.list()]


def test_backup_of_a_store_in_use(
    service: SyncWorkflowEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A store is copied while its engine works, and the copy opens as a store. It is not replaced by accident."""
    ran = run(capsys, "--store", tmp_path / "naps.db", "backup", tmp_path / "copy.db")
    assert (ran.code, ran.out) == (0, "")
    assert ids(tmp_path / "copy.db") == ["first"]
    service.start(nap(), id="second")
    ran = run(capsys, "--store", tmp_path / "naps.db", "backup", tmp_path / "copy.db")
    assert (ran.code, "pass --overwrite" in ran.err) == (3, True)
    assert run(capsys, "--store", tmp_path / "naps.db", "backup", tmp_path / "copy.db", "--overwrite").code == 0
    assert ids(tmp_path / "copy.db") == ["second", "first"]


def test_restore_refuses_a_store_in_use(
    service: SyncWorkflowEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A store with an engine is not replaced, and the engine notices nothing."""
    run(capsys, "--store", tmp_path / "naps.db", "backup", tmp_path / "copy.db")
    with pytest.raises(StoreInUse):
        maintenance.restore(str(tmp_path / "copy.db"), str(tmp_path / "naps.db"), overwrite=True)
    assert service.query_status("first") is WorkflowStatus.SUSPENDED
    assert not (tmp_path / "naps.db-partial").exists()


def test_restore_replaces_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A stopped store is replaced when that is asked for and confirmed, together with its log; the backup stays."""
    with SyncWorkflowEngine(tmp_path / "naps.db", workflows=[nap]) as engine:
        engine.start(nap(), id="first")
    run(capsys, "--store", tmp_path / "naps.db", "backup", tmp_path / "copy.db")
    with SyncWorkflowEngine(tmp_path / "naps.db", workflows=[nap]) as engine:
        engine.start(nap(), id="second")
        # As after a crash: the log beside the file has commits that the file lacks.
        shutil.copy(tmp_path / "naps.db", tmp_path / "crashed.db")
        shutil.copy(tmp_path / "naps.db-wal", tmp_path / "crashed.db-wal")
    words: list[str | Path] = ["--store", tmp_path / "crashed.db", "restore", tmp_path / "copy.db"]
    assert run(capsys, *words).code == 3
    assert run(capsys, *words, "--overwrite").code == 2
    assert run(capsys, *words, "--overwrite", "--yes").code == 0
    assert ids(tmp_path / "crashed.db") == ["first"]
    assert (tmp_path / "copy.db").exists()


def test_restore_to_a_new_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A backup is restored where there was no store; a failure leaves nothing there."""
    with SyncWorkflowEngine(tmp_path / "naps.db", workflows=[nap]) as engine:
        engine.start(nap(), id="first")
    (tmp_path / "text").write_text("no store " * 1000)
    ran = run(capsys, "--store", tmp_path / "new.db", "restore", tmp_path / "text")
    assert (ran.code, "not an SQLite database" in ran.err or "damaged" in ran.err) == (3, True)
    assert not (tmp_path / "new.db").exists()
    assert run(capsys, "--store", tmp_path / "missing" / "new.db", "restore", tmp_path / "naps.db").code == 3
    assert run(capsys, "--store", tmp_path / "new.db", "restore", tmp_path / "naps.db").code == 0
    assert ids(tmp_path / "new.db") == ["first"]


@pytest.fixture
def old_store(tmp_path: Path) -> Path:
    """A store that an earlier version has written."""
    return Path(shutil.copy(OLD, tmp_path / "old.db"))


def test_migration_is_looked_at_before_it_is_run(old_store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--dry-run` and `--sql` change nothing; `migrate` runs what they say; afterwards there is nothing to do."""
    before = old_store.read_bytes()
    first, *steps = run(capsys, "--store", old_store, "migrate", "--dry-run").out.splitlines()
    assert first.startswith(f"{old_store}: schema version 7 -> {schema.SCHEMA_VERSION}, would run ")
    assert steps[0] == "  m008_cancel_cause"
    statements = run(capsys, "--store", old_store, "migrate", "--sql").out.splitlines()
    assert statements[0] == "ALTER TABLE workflow ADD COLUMN cancel_cause TEXT;"
    assert statements[-1] == f"PRAGMA user_version = {schema.SCHEMA_VERSION};"
    assert old_store.read_bytes() == before
    assert os.listdir(old_store.parent) == [old_store.name]
    assert run(capsys, "--store", old_store, "migrate").code == 0
    ran = run(capsys, "--store", old_store, "migrate")
    assert ran.out == f"{old_store}: schema version {schema.SCHEMA_VERSION} is up to date\n"
    assert ids(old_store)


def test_migration_keeps_what_the_last_engine_left(old_store: Path) -> None:
    """Whether the last engine stopped in order stays as it was: the next start still knows that it crashed."""
    with closing(sqlite3.connect(old_store, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET clean = 0, incarnation = 'the last one', batch = 7")
    maintenance.migrate(str(old_store))
    with closing(sqlite3.connect(old_store, isolation_level=None)) as connection:
        row = connection.execute("SELECT clean, incarnation, batch FROM meta").fetchone()
    assert row == (0, "the last one", 7)


def test_store_in_use_is_not_migrated(service: SyncWorkflowEngine, tmp_path: Path) -> None:
    """A store with an engine is refused, and named."""
    with pytest.raises(StoreInUse):
        maintenance.migrate(str(tmp_path / "naps.db"))
    assert service.query_status("first") is WorkflowStatus.SUSPENDED


def test_file_commands_refuse_other_databases(capsys: pytest.CaptureFixture[str]) -> None:
    """A store that is not a file is refused, and its password is not shown."""
    ran = run(capsys, "--store", "postgresql://ann:secret@db/x", "backup", "copy.db")
    assert ran.code == 3
    assert "SQLite files only" in ran.err
    assert "secret" not in ran.err
    assert not os.path.exists("copy.db")
