"""Big stores: one real workflow, stored by an engine, and its rows copied by SQL as often as needed.

Starting a million workflows would take minutes; copying rows takes seconds. It relies on three facts about the tables:
`workflow.key` identifies a workflow, rows of other tables refer to it in their column `workflow`, and one ascending
serial numbers workflows and waits alike. So each copy gets its own key, id and serials, and `meta.serial` is moved past
them. No engine may have the file open.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

INSTANTS = ("created_at", "start_at", "wake_at", "finished_at", "at", "since")
SERIES = "WITH RECURSIVE series (n) AS (VALUES (0) UNION ALL SELECT n + 1 FROM series WHERE n + 1 < :count)"
# Odd, so multiplying by it permutes the numbers below 2 ** 32: ids made in order are scattered over the index.
SCATTER = 2_654_435_761


def scattered(prefix: str, number: int) -> str:
    """The id of a numbered workflow. Ids of neighbours are far apart, as random ids are."""
    return f"{prefix}{number * SCATTER % (1 << 32):08x}"


_ID = f"printf('%s%08x', :prefix, n * {SCATTER} % {1 << 32})"


class CannotClone(Exception):
    """The workflow has something that cannot be copied. The message says what."""


def clone(path: Path, id: str, count: int, *, prefix: str, shift: int = 0) -> None:
    """Copy a workflow `count` times, under the ids `scattered(prefix, 0)` and up, its times moved by `shift` µs."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        # Speed and not safety: a file with half of the copies is useless anyway.
        for pragma in ("synchronous = OFF", "cache_size = -500000"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN IMMEDIATE")
        _clone(connection, id, {"count": count, "prefix": prefix, "shift": shift})
        connection.execute("COMMIT")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _clone(connection: sqlite3.Connection, id: str, parameters: Mapping[str, object]) -> None:
    """Copy the rows of one workflow in every table that has any, with one INSERT … SELECT per table."""
    row = connection.execute("SELECT key, parent_key FROM workflow WHERE id = ?", (id,)).fetchone()
    if row is None or row[1] is not None:
        raise CannotClone(f"workflow {id!r} does not exist, or is a child")
    seed = row[0]
    if connection.execute("SELECT count(*) FROM pending_event WHERE target = ?", (seed,)).fetchone()[0]:
        raise CannotClone(f"there are events in the mailbox of {id!r}")
    serials = _serials(connection, seed)
    first = connection.execute("SELECT serial FROM meta").fetchone()[0] + 1
    # Each copy takes `stride` serials: its key, then one for each of its waits.
    bound = {**parameters, "seed": seed, "first": first, "stride": 1 + len(serials)}
    owner = ":first + n * :stride"
    for table, columns in _tables(connection):
        key = "key" if table == "workflow" else "workflow"
        if key not in columns:
            continue
        changed = {key: owner, "id": _ID if table == "workflow" else "id"}
        changed |= {name: f"{name} + :shift" for name in INSTANTS}
        ranks = " ".join(f"WHEN {serial} THEN {rank}" for rank, serial in enumerate(serials, start=1))
        changed["serial"] = f"{owner} + CASE serial {ranks} END" if serials else "serial"
        values = ", ".join(changed.get(name, name) for name in columns)
        connection.execute(
            f"{SERIES} INSERT INTO {table} ({', '.join(columns)}) "
            f"SELECT {values} FROM series CROSS JOIN {table} WHERE {key} = :seed",
            bound,
        )
    connection.execute("UPDATE meta SET serial = :first + :count * :stride - 1", bound)


def _tables(connection: sqlite3.Connection) -> list[tuple[str, list[str]]]:
    """Every table of the file, with its columns."""
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return [(name, [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]) for name in names]


def _serials(connection: sqlite3.Connection, key: int) -> list[int]:
    """The serials of a workflow's waits, ascending."""
    sql = "SELECT serial FROM event_wait WHERE workflow = ? ORDER BY serial"
    return [serial for (serial,) in connection.execute(sql, (key,))]
