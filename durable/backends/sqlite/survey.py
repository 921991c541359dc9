"""What a store looks like from outside: the facts from which a diagnosis is made. Reads only, beside a running engine.

Knows the tables and the files beside them. Only reports facts: the caller decides what is good or bad. Each
list is short, because a diagnosis names examples and counts the rest.
"""

from __future__ import annotations

import os
import shutil
import sqlite3

import attrs

from durable.backends.sqlite import owner, schema
from durable.backends.sqlite.reader import StoreReader
from durable.model.clock import SECOND

# How many examples are named.
_EXAMPLES = 5
_MINUTE, _HOUR = 60 * SECOND, 3600 * SECOND
# A timer that is later than this was not fired, an event older than this is not being waited for, and a run without an
# entry for this long may be stuck.
LATE, IGNORED, SILENT = _MINUTE, _HOUR, _HOUR


@attrs.frozen
class Group:
    """Rows that have something in common: what that is, how many there are, and a few ids of them."""

    about: str
    count: int
    examples: tuple[str, ...] = ()
    # The oldest instant among them, if they have one.
    oldest: int | None = None


@attrs.frozen(kw_only=True)
class Files:
    """The store as files, and who owns it. Sizes are bytes."""

    path: str
    size: int
    log_size: int
    disk_free: int
    disk_size: int
    # The process that owns the store; None if no engine does.
    holder: str | None
    schema_version: int
    known_version: int = schema.SCHEMA_VERSION


@attrs.frozen(kw_only=True)
class Contents:
    """What is stored, as far as a diagnosis needs it."""

    now: int
    # Whether the last engine stopped in order.
    is_clean: bool
    by_status: dict[str, int]
    parked: tuple[Group, ...] = ()
    overdue: Group | None = None
    silent: Group | None = None
    suspects: Group | None = None
    dead_letters: tuple[Group, ...] = ()
    ignored_events: tuple[Group, ...] = ()
    # The latest instant at which anything was started or recorded.
    latest: int | None = None
    # What SQLite's own check says; None if it was not asked for.
    damage: str | None = None


def files(path: str) -> Files:
    """The facts about the files. Raises a `StorageError` for a file that is not a store, or a newer one."""
    real = os.path.realpath(path)
    with StoreReader(path, any_schema=True) as reader:
        version = reader.look(schema.version)
    disk = shutil.disk_usage(os.path.dirname(real))
    return Files(
        path=path,
        size=os.path.getsize(real),
        log_size=_size(f"{real}-wal"),
        disk_free=disk.free,
        disk_size=disk.total,
        holder=owner.holder(real),
        schema_version=version,
    )


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def contents(path: str, now: int, *, is_deep: bool = False) -> Contents:
    """The facts about the rows; with `is_deep`, also whether the file is damaged, which reads all of it.

    Raises a `StorageError`, also for a store of an earlier schema.
    """
    with StoreReader(path) as reader:
        return reader.look(lambda connection: _contents(connection, now, is_deep=is_deep))


def _contents(connection: sqlite3.Connection, now: int, *, is_deep: bool) -> Contents:
    run = connection.execute
    row = run("SELECT clean FROM meta WHERE id = 1").fetchone()
    live = "status IN ('running', 'suspended')"
    silent = "SELECT max(at) FROM history WHERE history.workflow = workflow.key"
    latest = "SELECT max(created_at) FROM (SELECT created_at FROM workflow ORDER BY key DESC LIMIT 1000)"
    return Contents(
        now=now,
        is_clean=row is None or bool(row[0]),
        by_status=dict(run("SELECT status, count(*) FROM workflow GROUP BY status").fetchall()),
        parked=_groups(connection, "workflow", "coalesce(park_reason, '')", "id", condition="status = 'parked'"),
        overdue=_group(connection, "workflow", "id", f"wake_at < {now - LATE} AND {live}", "wake_at"),
        silent=_group(
            connection,
            "workflow",
            "id",
            f"status = 'running' AND wake_at IS NULL AND coalesce(({silent}), start_at) < {now - SILENT}",
            "start_at",
        ),
        suspects=_group(connection, "suspect JOIN workflow ON workflow.key = suspect.workflow", "id", "TRUE", "NULL"),
        dead_letters=_groups(connection, "dead_letter", "name", "id", condition="TRUE", instant="died_at"),
        ignored_events=_groups(
            connection,
            "pending_event",
            "name || CASE WHEN unstarted IS NULL THEN '' ELSE ' to an id that was never started' END",
            "serial",
            condition=f"target IS NULL AND NOT (taken AND NOT consume) AND sent_at < {now - IGNORED} "
            f"AND coalesce(expires_at, {now + 1}) > {now}",
            instant="sent_at",
        ),
        latest=run(latest).fetchone()[0],
        damage=run("PRAGMA quick_check(1)").fetchone()[0] if is_deep else None,
    )


def _group(connection: sqlite3.Connection, table: str, id: str, condition: str, instant: str) -> Group | None:
    """The rows that match, as one group; None if there are none."""
    sql = f"SELECT count(*), min({instant}) FROM {table} WHERE {condition}"
    count, oldest = connection.execute(sql).fetchone()
    return Group("", count, _examples(connection, table, id, condition), oldest) if count else None


def _groups(
    connection: sqlite3.Connection, table: str, about: str, id: str, *, condition: str, instant: str = "NULL"
) -> tuple[Group, ...]:
    """The rows that match, grouped by what they are about, the largest group first."""
    sql = f"SELECT {about} AS about, count(*), min({instant}) FROM {table} WHERE {condition} GROUP BY 1 ORDER BY 2 DESC"
    rows = connection.execute(f"{sql} LIMIT 20").fetchall()
    return tuple(
        Group(text, count, _examples(connection, table, id, f"({condition}) AND {about} = ?", text), oldest)
        for text, count, oldest in rows
    )


def _examples(connection: sqlite3.Connection, table: str, id: str, condition: str, *values: str) -> tuple[str, ...]:
    sql = f"SELECT {id} FROM {table} WHERE {condition} LIMIT {_EXAMPLES}"
    return tuple(str(text) for (text,) in connection.execute(sql, values).fetchall())
