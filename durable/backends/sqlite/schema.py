"""What a durable SQLite file looks like inside: its tables, its indexes, its marks and how it gets them.

Knows DDL and migrations. Must not know records or what the tables are read for. A new version of the schema is one
more function in `_migrations`, and `SCHEMA_VERSION` one higher; a migration that was released is never edited.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from durable.errors import StoreTooNew, StoreUnusable

if TYPE_CHECKING:
    from sqlite_utils import Database, Migrations

from durable.backends.sql.indexes import INDEXED_STATUSES, IS_TIED, status_is

SCHEMA_VERSION = 8
# "Durb": tells our files from any other SQLite file, also for `file(1)`.
APPLICATION_ID = 0x44757262
_TABLES = (
    """
    CREATE TABLE meta (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        incarnation TEXT NOT NULL,
        batch INTEGER NOT NULL,
        serial INTEGER NOT NULL,
        clean INTEGER NOT NULL,
        format INTEGER NOT NULL
    ) STRICT
    """,
    "INSERT INTO meta (id, incarnation, batch, serial, clean, format) VALUES (1, '', 0, 0, 1, 1)",
    """
    CREATE TABLE workflow (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        version INTEGER NOT NULL,
        status TEXT NOT NULL,
        input TEXT NOT NULL,
        start_digest TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        start_at INTEGER NOT NULL,
        wake_at INTEGER,
        finished_at INTEGER,
        result TEXT,
        error TEXT,
        parent_key INTEGER,
        parent_place TEXT,
        depth INTEGER NOT NULL,
        round INTEGER NOT NULL,
        tags TEXT NOT NULL,
        cancel_requested INTEGER NOT NULL,
        cancel_reason TEXT,
        crashes INTEGER NOT NULL,
        park_reason TEXT,
        park_detail TEXT,
        cursors TEXT NOT NULL,
        revision INTEGER NOT NULL DEFAULT 0
    ) STRICT
    """,
    """
    CREATE TABLE history (
        workflow INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        position TEXT NOT NULL,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        status TEXT NOT NULL,
        outcome TEXT NOT NULL,
        at INTEGER NOT NULL,
        retry_at INTEGER,
        PRIMARY KEY (workflow, seq)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE event_wait (
        workflow INTEGER NOT NULL,
        position TEXT NOT NULL,
        name TEXT NOT NULL,
        event_key TEXT NOT NULL,
        mode TEXT NOT NULL,
        serial INTEGER NOT NULL,
        since INTEGER NOT NULL,
        PRIMARY KEY (workflow, position)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE pending_event (
        serial INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        event_key TEXT NOT NULL,
        target INTEGER,
        unstarted TEXT,
        payload TEXT NOT NULL,
        sent_at INTEGER NOT NULL,
        expires_at INTEGER,
        consume INTEGER NOT NULL,
        CHECK (target IS NULL OR unstarted IS NULL)
    ) STRICT
    """,
    """
    CREATE TABLE dead_letter (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        event_key TEXT NOT NULL,
        workflow_id TEXT NOT NULL,
        payload TEXT NOT NULL,
        sent_at INTEGER NOT NULL,
        died_at INTEGER NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE sent_event (
        event_id TEXT NOT NULL PRIMARY KEY,
        digest TEXT NOT NULL,
        reply TEXT NOT NULL,
        at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE workflow_tag (
        tag TEXT NOT NULL,
        workflow INTEGER NOT NULL,
        PRIMARY KEY (tag, workflow)
    ) STRICT, WITHOUT ROWID
    """,
)
# An index of a table with an integer primary key ends in that key without naming it: (wake_at) is (wake_at, key).
_INDEXES = (
    "CREATE INDEX workflow_wake ON workflow (wake_at) WHERE wake_at IS NOT NULL",
    f"CREATE INDEX workflow_live ON workflow (status) WHERE {' OR '.join(map(status_is, INDEXED_STATUSES))}",
    "CREATE INDEX workflow_name ON workflow (name)",
    "CREATE INDEX workflow_tag_workflow ON workflow_tag (workflow)",
    "CREATE INDEX event_wait_event ON event_wait (name, event_key, serial)",
    # One index for both queues, the untargeted one (both NULL) and a mailbox's, and for counting a name.
    "CREATE INDEX pending_event_queue ON pending_event (name, event_key, target, unstarted)",
    "CREATE INDEX pending_event_target ON pending_event (target) WHERE target IS NOT NULL",
    "CREATE INDEX pending_event_unstarted ON pending_event (unstarted) WHERE unstarted IS NOT NULL",
    "CREATE INDEX pending_event_expiry ON pending_event (expires_at) WHERE expires_at IS NOT NULL",
    "CREATE INDEX pending_event_sent ON pending_event (sent_at) WHERE target IS NULL",
    "CREATE INDEX sent_event_at ON sent_event (at)",
)
_SCHEDULES = (
    """
    CREATE TABLE schedule (
        key INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        cron TEXT,
        every INTEGER,
        timezone TEXT,
        workflow TEXT NOT NULL,
        version INTEGER NOT NULL,
        input TEXT NOT NULL,
        overlap TEXT NOT NULL,
        catch_up TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        anchor INTEGER NOT NULL,
        paused INTEGER NOT NULL,
        done_until INTEGER NOT NULL,
        next_at INTEGER,
        wake_at INTEGER,
        queued INTEGER,
        skipped INTEGER NOT NULL,
        last_tick INTEGER,
        last_key INTEGER,
        last_id TEXT,
        missed_from INTEGER,
        missed_until INTEGER
    ) STRICT
    """,
    "CREATE INDEX schedule_wake ON schedule (wake_at) WHERE wake_at IS NOT NULL",
)
# Children that are spawned, and what workflows publish.
_SPAWNING = (
    "ALTER TABLE workflow ADD COLUMN on_parent_close TEXT",
    f"CREATE INDEX workflow_child ON workflow (parent_key) WHERE parent_key IS NOT NULL AND {IS_TIED}",
    """
    CREATE TABLE progress (
        workflow INTEGER PRIMARY KEY,
        round INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        value TEXT NOT NULL,
        at INTEGER NOT NULL
    ) STRICT
    """,
)
# How long an event is kept counts from `since`. A broadcast that was taken no longer counts as pending. Dead letters
# say why they died, and may have no workflow. Which broadcasts a workflow has taken stands in rows of their own.
_MAIL = (
    "ALTER TABLE pending_event ADD COLUMN since INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE pending_event ADD COLUMN taken INTEGER NOT NULL DEFAULT 0",
    # Whether an old broadcast was taken is unknown. It must not keep senders out.
    "UPDATE pending_event SET since = sent_at, taken = 1 - consume",
    "DROP INDEX pending_event_sent",
    "DROP INDEX pending_event_queue",
    "CREATE INDEX pending_event_since ON pending_event (since) WHERE target IS NULL",
    "CREATE INDEX pending_event_queue ON pending_event (name, target, unstarted, event_key, consume)",
    # The last two columns are always NULL. With them, a count reads nothing but the index.
    "CREATE INDEX pending_event_open ON pending_event (name, taken, target, unstarted) "
    "WHERE target IS NULL AND unstarted IS NULL",
    """
    CREATE TABLE dead_letter_5 (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        event_key TEXT NOT NULL,
        workflow_id TEXT,
        payload TEXT NOT NULL,
        sent_at INTEGER NOT NULL,
        died_at INTEGER NOT NULL,
        reason TEXT NOT NULL,
        detail TEXT,
        status TEXT,
        broadcast INTEGER NOT NULL
    ) STRICT
    """,
    "INSERT INTO dead_letter_5 SELECT *, 'workflow ended', NULL, NULL, 0 FROM dead_letter",
    "DROP TABLE dead_letter",
    "ALTER TABLE dead_letter_5 RENAME TO dead_letter",
    "CREATE INDEX dead_letter_died ON dead_letter (died_at)",
    """
    CREATE TABLE broadcast_taken (
        workflow INTEGER NOT NULL,
        name TEXT NOT NULL,
        event_key TEXT NOT NULL,
        serial INTEGER NOT NULL,
        PRIMARY KEY (workflow, name, event_key)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX broadcast_taken_event ON broadcast_taken (name, event_key, serial)",
)
# Who runs on trial after an unclean stop. Usually empty.
_SUSPECTS = "CREATE TABLE suspect (workflow INTEGER PRIMARY KEY, crashes INTEGER NOT NULL) STRICT"
_CANCEL_CAUSES = """
    UPDATE workflow SET cancel_cause = CASE
        WHEN parent_key IS NOT NULL AND cancel_reason LIKE 'parent % has ended' THEN 'parent_ended'
        WHEN parent_key IS NOT NULL AND cancel_reason LIKE 'workflow % no longer waits for it' THEN 'not_awaited'
        ELSE 'requested' END
    WHERE cancel_requested > 0
"""


def _migrations() -> Migrations:
    """All migrations, in order."""
    # sqlite-utils takes 139 ms to import; only a file whose schema is not current pays for it.
    from sqlite_utils import Migrations

    migrations = Migrations("durable")

    @migrations()
    def m001_tables(db: Database) -> None:
        for statement in _TABLES + _INDEXES:
            db.execute(statement)

    @migrations()
    def m002_pauses(db: Database) -> None:
        # A pause is a wait with a question. It stands under the empty name, so the index by name lists the pauses.
        for column in ("prompt TEXT", "expects TEXT", "expires_at INTEGER"):
            db.execute(f"ALTER TABLE event_wait ADD COLUMN {column}")

    @migrations()
    def m003_spawning(db: Database) -> None:
        for statement in _SPAWNING:
            db.execute(statement)

    @migrations()
    def m004_schedules(db: Database) -> None:
        for statement in _SCHEDULES:
            db.execute(statement)

    @migrations()
    def m005_mail(db: Database) -> None:
        for statement in _MAIL:
            db.execute(statement)

    @migrations()
    def m006_suspects(db: Database) -> None:
        db.execute(_SUSPECTS)

    @migrations()
    def m007_views_and_positions(db: Database) -> None:
        # All children of a workflow, for people; the index above has those that end with it only.
        db.execute("CREATE INDEX workflow_parent ON workflow (parent_key) WHERE parent_key IS NOT NULL")
        db.execute("ALTER TABLE workflow ADD COLUMN position_format INTEGER NOT NULL DEFAULT 0")

    @migrations()
    def m008_cancel_cause(db: Database) -> None:
        # Until then the words of the reason said it.
        db.execute("ALTER TABLE workflow ADD COLUMN cancel_cause TEXT")
        db.execute(_CANCEL_CAUSES)

    return migrations


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the schema up to date, inside the caller's transaction.

    The caller must hold BEGIN IMMEDIATE: without it, processes that migrate at the same time fail on each other's
    tables. Each migration is then a savepoint, and all of them with their marks are kept or none.
    """
    from sqlite_utils import Database

    if not connection.in_transaction:
        raise RuntimeError("migrate needs an open transaction")
    # Plugins of sqlite-utils are for its command line; they have no business on this connection.
    _migrations().apply(Database(connection, recursive_triggers=False, execute_plugins=False))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether the file needs no migration."""
    return _marks(connection) == (APPLICATION_ID, SCHEMA_VERSION)


def check(connection: sqlite3.Connection, store: str) -> None:
    """Raise `StoreUnusable` for a database of somebody else, `StoreTooNew` for one of a later durable. Reads only."""
    application, version = _marks(connection)
    strangers = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application != APPLICATION_ID and strangers:
        raise StoreUnusable(store, "it is an SQLite database that holds other tables; give durable a file of its own")
    if version > SCHEMA_VERSION:
        raise StoreTooNew(store, version, SCHEMA_VERSION)


def _marks(connection: sqlite3.Connection) -> tuple[int, int]:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    return application, version
