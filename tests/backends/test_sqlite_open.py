"""Opening a SQLite store: what is refused, and that a refusal leaves everything as it was; migration; the lock."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from durable.backends.base import Batch, Opened
from durable.backends.sqlite import SqliteBackend, owner, schema
from durable.errors import (
    InvalidValue,
    StorageError,
    StorageUnavailable,
    StoreInUse,
    StoreTooNew,
    StoreUnusable,
    WrongType,
)
from durable.testing.conformance.kit import workflow

# Child processes import durable from here, wherever the tests are run from.
ROOT = pathlib.Path(schema.__file__).parents[2]


def _make_store(path: pathlib.Path) -> None:
    backend = SqliteBackend(path)
    backend.open("maker")
    backend.commit(Batch(number=1, workflows_new={1: workflow(1)}))
    backend.close()
    pathlib.Path(f"{path}-owner").unlink()


def _sql(path: pathlib.Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def _contents(folder: pathlib.Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def _damage(path: pathlib.Path) -> None:
    _make_store(path)
    data = bytearray(path.read_bytes())
    data[100:4096] = b"\xff" * (4096 - 100)
    path.write_bytes(data)


def _read_only(path: pathlib.Path) -> None:
    _make_store(path)
    path.chmod(0o444)


def _newer(path: pathlib.Path) -> None:
    _make_store(path)
    _sql(path, "PRAGMA user_version = 99")


BAD_FILES: list[tuple[str, Callable[[pathlib.Path], object], type[StorageError], str]] = [
    ("directory", lambda path: path.mkdir(), StoreUnusable, "is a directory"),
    ("fifo", os.mkfifo, StoreUnusable, "not a regular file"),
    ("read-only", _read_only, StoreUnusable, "no permission to write"),
    ("text", lambda path: path.write_bytes(b"hello"), StoreUnusable, "not an SQLite database"),
    ("long text", lambda path: path.write_bytes(b"x" * 9000), StoreUnusable, "not an SQLite database"),
    ("cut off", lambda path: path.write_bytes(b"SQLite format 3\0" + b"\1" * 90), StoreUnusable, "damaged"),
    ("malformed", _damage, StoreUnusable, "damaged"),
    ("foreign", lambda path: _sql(path, "CREATE TABLE songs (title)"), StoreUnusable, "holds other tables"),
    (
        "foreign with a version",
        lambda path: _sql(path, "CREATE TABLE songs (title)", "PRAGMA user_version = 53"),
        StoreUnusable,
        "holds other tables",
    ),
    ("newer", _newer, StoreTooNew, f"schema version 99, this durable supports versions up to {schema.SCHEMA_VERSION}"),
]


@pytest.mark.parametrize(
    ("prepare", "error", "hint"), [row[1:] for row in BAD_FILES], ids=[row[0] for row in BAD_FILES]
)
def test_unusable_files_are_left_alone(
    tmp_path: pathlib.Path, prepare: Callable[[pathlib.Path], object], error: type[StorageError], hint: str
) -> None:
    """A file that cannot be a store is refused in one clear sentence, and neither it nor its directory changes."""
    path = tmp_path / "store.db"
    prepare(path)
    before = _contents(tmp_path)
    backend = SqliteBackend(path)
    with pytest.raises(error) as caught:
        backend.open("a")
    assert hint in str(caught.value)
    assert str(path) in str(caught.value)
    assert _contents(tmp_path) == before
    backend.close()
    assert _contents(tmp_path) == before


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        (":memory:", "memory://"),
        ("", "not the path of a file"),
        ("file:x.db?mode=memory", "not the path of a file"),
        ("a\0b", "not the path of a file"),
        ("missing/store.db", "does not exist; create it first"),
        ("x" * 300, "cannot be examined"),
    ],
)
def test_unusable_paths(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, path: str, hint: str) -> None:
    """A path that names no file in an existing directory is refused, and nothing is created."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreUnusable) as caught:
        SqliteBackend(path).open("a")
    assert hint in str(caught.value)
    assert _contents(tmp_path) == {}


def test_directory_without_permission(tmp_path: pathlib.Path) -> None:
    """In a directory where nothing may be created a store is refused; root, who may, is not."""
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o555)
    backend = SqliteBackend(folder / "store.db")
    if os.access(folder, os.W_OK):
        backend.open("a")
        backend.close()
    else:
        with pytest.raises(StoreUnusable, match="no permission to create files"):
            backend.open("a")
    folder.chmod(0o755)


def test_newer_schema_that_is_still_in_the_wal(tmp_path: pathlib.Path) -> None:
    """A version that a killed process left in the -wal is also seen, and the database file is not changed."""
    path = tmp_path / "store.db"
    _make_store(path)
    before = path.read_bytes()
    code = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "c.execute('PRAGMA user_version = 99'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, check=True)
    assert path.read_bytes() == before
    with pytest.raises(StoreTooNew):
        SqliteBackend(path).open("a")
    assert path.read_bytes() == before
    assert not pathlib.Path(f"{path}-owner").exists()


@pytest.mark.parametrize(
    ("statement", "hint"),
    [("DELETE FROM meta", "row of the table meta is missing"), ("DROP TABLE meta", "changed by hand")],
)
def test_store_without_its_meta_row(tmp_path: pathlib.Path, statement: str, hint: str) -> None:
    """A store whose book-keeping was removed by hand is refused, and the lock is released."""
    path = tmp_path / "store.db"
    _make_store(path)
    _sql(path, statement)
    for _ in range(2):
        with pytest.raises(StoreUnusable, match=hint):
            SqliteBackend(path).open("a")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"path": 7}, WrongType),
        ({"path": "store.db", "synchronous": "OFF"}, InvalidValue),
        ({"path": "store.db", "busy_timeout": -1}, InvalidValue),
        ({"path": "store.db", "busy_timeout": float("nan")}, InvalidValue),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception]) -> None:
    """Arguments that cannot work are refused when the backend is made."""
    with pytest.raises(error):
        SqliteBackend(**arguments)


def test_new_and_empty_files_become_stores(tmp_path: pathlib.Path) -> None:
    """A missing file and an empty one become a store of the current schema, in WAL mode, with our mark."""
    (tmp_path / "empty.db").touch()
    for name in ("empty.db", "new.db"):
        path = tmp_path / name
        backend = SqliteBackend(path)
        assert backend.open("a") == Opened(serial=0, clean=True)
        backend.close()
        connection = sqlite3.connect(path)
        assert schema.is_current(connection)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        names = "tables pauses spawning schedules mail suspects views_and_positions cancel_cause requests".split()
        applied = connection.execute("SELECT migration_set, name FROM _sqlite_migrations").fetchall()
        assert applied == [("durable", f"m{number:03}_{name}") for number, name in enumerate(names, start=1)]
        connection.close()


JOURNAL = bytes.fromhex("d9d505f920a163d7" + "00000000" * 3 + "00000200" + "00001000").ljust(512, b"\0")
PAGE = b"SQLite format 3\0\x10\0\x02\x02".ljust(4096, b"\0")


@pytest.mark.parametrize(
    "left",
    [{"": bytes(4096), "-journal": JOURNAL}, {"": PAGE, "-journal": JOURNAL, "-wal": b"7\x7f".ljust(32)}],
    ids=["torn first page", "journal whose deletion was lost"],
)
def test_creation_that_a_power_cut_ended(tmp_path: pathlib.Path, left: dict[str, bytes]) -> None:
    """The remains of a store that was being created are rolled back by SQLite, and become a store."""
    for suffix, data in left.items():
        (tmp_path / f"store.db{suffix}").write_bytes(data)
    backend = SqliteBackend(tmp_path / "store.db")
    assert backend.open("a") == Opened(serial=0, clean=True)
    backend.close()


@pytest.mark.parametrize(("synchronous", "level"), [("FULL", 2), ("NORMAL", 1)])
def test_synchronous(tmp_path: pathlib.Path, synchronous: Any, level: int) -> None:
    """SQLite works with the requested durability."""
    backend = SqliteBackend(tmp_path / "store.db", synchronous=synchronous)
    backend.open("a")
    assert backend._connection is not None
    assert backend._connection.execute("PRAGMA synchronous").fetchone() == (level,)
    backend.close()


def test_migration_needs_a_transaction(tmp_path: pathlib.Path) -> None:
    """Without an outer transaction nothing is migrated: two processes could do it at once."""
    connection = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    with pytest.raises(RuntimeError, match="transaction"):
        schema.migrate(connection)
    assert not schema.is_current(connection)
    connection.close()


def test_current_store_opens_without_sqlite_utils(tmp_path: pathlib.Path) -> None:
    """A store that needs no migration does not pay for importing the library that would do it."""
    path = tmp_path / "store.db"
    _make_store(path)
    code = (
        "import sys; from durable.backends.sqlite import SqliteBackend; b = SqliteBackend(sys.argv[1]); b.open('a'); "
        "b.close(); sys.exit('sqlite_utils' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, check=False).returncode == 0


# --- the lock -----------------------------------------------------------------------------------------------------

_HOLD = (
    "import sys; from durable.backends.sqlite import SqliteBackend; b = SqliteBackend(sys.argv[1]); b.open('child'); "
    "print('open', flush=True); sys.stdin.read()"
)


def _hold_elsewhere(path: pathlib.Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "open\n"
    return child


def test_second_engine_in_this_process(tmp_path: pathlib.Path) -> None:
    """A second engine in the process is refused, by any name of the file, and does not cost the first its lock."""
    path = tmp_path / "store.db"
    (tmp_path / "link.db").symlink_to(path)
    first = SqliteBackend(path)
    first.open("a")
    for backend in (SqliteBackend(path), SqliteBackend(tmp_path / "link.db"), first):
        with pytest.raises(StoreInUse, match="another engine in this process"):
            backend.open("b")
        if backend is not first:
            backend.close()
    command = [sys.executable, "-c", _HOLD, str(path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert f"in use by process {os.getpid()} on host {socket.gethostname()}" in result.stderr
    first.commit(Batch(number=1))
    first.close()
    second = SqliteBackend(path)
    second.open("b")
    second.close()


def test_engine_in_another_process(tmp_path: pathlib.Path) -> None:
    """An engine of another process is named by its pid; when it is killed, the store is free and not clean."""
    path = tmp_path / "store.db"
    with _hold_elsewhere(path) as child:
        try:
            for _ in range(2):
                with pytest.raises(StoreInUse, match=f"process {child.pid} on host"):
                    SqliteBackend(path).open("a")
        finally:
            child.send_signal(signal.SIGKILL)
    backend = SqliteBackend(path)
    assert backend.open("a").clean is False
    backend.close()


def test_holder_that_cannot_be_read(tmp_path: pathlib.Path) -> None:
    """If the lock file does not name its holder, the open is still refused."""
    path = tmp_path / "store.db"
    with _hold_elsewhere(path) as child:
        try:
            pathlib.Path(f"{path}-owner").write_text("[]")
            with pytest.raises(StoreInUse, match="in use by another process"):
                SqliteBackend(path).open("a")
        finally:
            child.kill()


def test_dropped_backend_frees_the_file(tmp_path: pathlib.Path) -> None:
    """A lock without references is released, so that one lost object does not block the process."""
    path = str(tmp_path / "store.db")
    lock = owner.take(path)
    del lock
    again = owner.take(path)
    again.release()
    again.release()


def test_fork_does_not_inherit_the_lock(tmp_path: pathlib.Path) -> None:
    """A forked child does not own the file: it is refused while the parent holds it, and cannot free it."""
    path = str(tmp_path / "store.db")
    held = owner.take(path)
    child = os.fork()
    if child == 0:
        held.release()
        try:
            owner.take(path)
        except StoreInUse as error:
            os._exit(0 if f"process {os.getppid()} " in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(StoreInUse):
        owner.take(path)
    held.release()


def test_forked_child_keeps_a_lock_of_its_own(tmp_path: pathlib.Path) -> None:
    """A child that takes the file after the fork does not lose it when it drops what it inherited."""
    path = str(tmp_path / "store.db")
    held = owner.take(path)
    released, taken, done = os.pipe(), os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.read(released[0], 1)
        own = owner.take(path)
        held.release()
        os.write(taken[1], b"x")
        os.read(done[0], 1)
        own.release()
        os._exit(0)
    held.release()
    os.write(released[1], b"x")
    os.read(taken[0], 1)
    try:
        with pytest.raises(StoreInUse, match=f"process {child} on host"):
            owner.take(path)
    finally:
        os.write(done[1], b"x")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    owner.take(path).release()
    for descriptor in (*released, *taken, *done):
        os.close(descriptor)


def test_lock_file_that_cannot_be_opened(tmp_path: pathlib.Path) -> None:
    """A lock file that is in the way is a clear error, and no database is created."""
    path = tmp_path / "store.db"
    pathlib.Path(f"{path}-owner").mkdir()
    with pytest.raises(StoreUnusable, match="lock file"):
        SqliteBackend(path).open("a")
    assert not path.exists()


def test_open_while_a_foreign_writer_works(tmp_path: pathlib.Path) -> None:
    """Another program's write transaction makes the open fail after the busy timeout; afterwards the store opens."""
    path = tmp_path / "store.db"
    _make_store(path)
    foreign = sqlite3.connect(path, isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    backend = SqliteBackend(path, busy_timeout=0.01)
    with pytest.raises(StorageUnavailable, match=r"store\.db: database is locked"):
        backend.open("a")
    foreign.close()
    backend.open("a")
    backend.close()
