"""The schema of a SQLite store: its tables, its indexes, the marks of the file, and the migrations.

Knows DDL and migrations. Knows nothing about records or about why tables are read. To change the schema, add a function
to `_migrations` and raise `SCHEMA_VERSION` by one. Never edit a migration that was released: stores have run it.

A store is recognised by two marks in its header. `application_id` says that it belongs to durable, `user_version` is
the schema version. Both are set in the transaction of the migration, so a file never claims a schema that it does not
have. The names of migrations that have run are in the table of sqlite-utils.

Tables and their keys:

- `meta`: one row with the incarnation that owns the store, its last batch, the highest serial, and whether it stopped
  cleanly. Every commit updates it.
- `workflow`, by key; `workflow_tag`, by tag and key, so that a tag lists its workflows in key order.
- `history`, by workflow and `seq`; `event_wait`, by workflow and position. Both WITHOUT ROWID: the rows of a workflow
  are next to each other, and one search finds them.
- `pending_event`, by serial, which is also the order of delivery; `dead_letter`, by the serial that its event had.
- `sent_event`, by the event id of the sender; `broadcast_taken`, by workflow, name and key.
- `answer`, by the id of a request; `kept_request`, by number: for callers in other processes.
- `progress` and `suspect`, by workflow; `schedule`, by keys of its own, which count down from -1.

Most indexes are partial. They contain only rows that a query looks for, so that millions of ended workflows cost
little. `sql.indexes` holds the conditions that queries must repeat.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING

from durable.errors import StoreTooNew, StoreUnusable

if TYPE_CHECKING:
    from sqlite_utils import Database, Migrations

from durable.backends.sql.indexes import INDEXED_STATUSES, IS_TIED, status_is

SCHEMA_VERSION = 10
# "Durb": distinguishes a durable store from any other SQLite file, also for `file(1)`.
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
# In a table with an integer primary key, every index ends with that key without naming it: (wake_at) is (wake_at, key).
_INDEXES = (
    "CREATE INDEX workflow_wake ON workflow (wake_at) WHERE wake_at IS NOT NULL",
    f"CREATE INDEX workflow_live ON workflow (status) WHERE {' OR '.join(map(status_is, INDEXED_STATUSES))}",
    "CREATE INDEX workflow_name ON workflow (name)",
    "CREATE INDEX workflow_tag_workflow ON workflow_tag (workflow)",
    "CREATE INDEX event_wait_event ON event_wait (name, event_key, serial)",
    # One index for the untargeted queue (both NULL), for mailboxes, and for counting by name.
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
# Spawned children, and the progress that workflows publish.
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
# The retention of an event counts from `since`. A broadcast that was taken no longer counts as pending. Dead letters
# have a reason, and may have no workflow. The broadcasts that workflows have taken get their own table.
_MAIL = (
    "ALTER TABLE pending_event ADD COLUMN since INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE pending_event ADD COLUMN taken INTEGER NOT NULL DEFAULT 0",
    # It is unknown whether an old broadcast was taken. Count it as taken, so that it does not block senders.
    "UPDATE pending_event SET since = sent_at, taken = 1 - consume",
    "DROP INDEX pending_event_sent",
    "DROP INDEX pending_event_queue",
    "CREATE INDEX pending_event_since ON pending_event (since) WHERE target IS NULL",
    "CREATE INDEX pending_event_queue ON pending_event (name, target, unstarted, event_key, consume)",
    # The last two columns are always NULL. With them in the index, a count does not read the table.
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
# The workflows that run on trial after an unclean stop. Usually empty.
_SUSPECTS = "CREATE TABLE suspect (workflow INTEGER PRIMARY KEY, crashes INTEGER NOT NULL) STRICT"
# Answers that a repeated request gets again, and requests that wait for an engine.
_REQUESTS = (
    """
    CREATE TABLE answer (
        request_id TEXT NOT NULL PRIMARY KEY,
        text TEXT NOT NULL,
        at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX answer_at ON answer (at)",
    """
    CREATE TABLE kept_request (
        number INTEGER PRIMARY KEY,
        request_id TEXT NOT NULL,
        operation TEXT NOT NULL,
        at INTEGER NOT NULL
    ) STRICT
    """,
)
_CANCEL_CAUSES = """
    UPDATE workflow SET cancel_cause = CASE
        WHEN parent_key IS NOT NULL AND cancel_reason LIKE 'parent % has ended' THEN 'parent_ended'
        WHEN parent_key IS NOT NULL AND cancel_reason LIKE 'workflow % no longer waits for it' THEN 'not_awaited'
        ELSE 'requested' END
    WHERE cancel_requested > 0
"""


def _migrations() -> Migrations:
    """All migrations, in order."""
    # Importing sqlite-utils takes 139 ms, so only a file that needs a migration pays for it.
    from sqlite_utils import Migrations

    migrations = Migrations("durable")

    @migrations()
    def m001_tables(db: Database) -> None:
        _execute(db, _TABLES + _INDEXES)

    @migrations()
    def m002_pauses(db: Database) -> None:
        # A pause is a wait with a question. Its name is empty, so the index by name also lists the pauses.
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
        # All children of a workflow, for views. The index `workflow_child` has only those that end with their parent.
        db.execute("CREATE INDEX workflow_parent ON workflow (parent_key) WHERE parent_key IS NOT NULL")
        db.execute("ALTER TABLE workflow ADD COLUMN position_format INTEGER NOT NULL DEFAULT 0")

    @migrations()
    def m008_cancel_cause(db: Database) -> None:
        # Earlier versions stored the cause only as the text of the reason.
        db.execute("ALTER TABLE workflow ADD COLUMN cancel_cause TEXT")
        db.execute(_CANCEL_CAUSES)

    @migrations()
    def m009_requests(db: Database) -> None:
        _execute(db, _REQUESTS)

    @migrations()
    def m010_traces(db: Database) -> None:
        # The trace context of whoever started a workflow or sent an event.
        for table in ("workflow", "pending_event"):
            db.execute(f"ALTER TABLE {table} ADD COLUMN trace TEXT")

    return migrations


def _execute(db: Database, statements: Iterable[str]) -> None:
    for statement in statements:
        db.execute(statement)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the schema up to date, inside the caller's transaction.

    The caller must hold BEGIN IMMEDIATE: without it, processes that migrate at the same time fail on each other's
    tables. Each migration is then a savepoint, and either all of them are kept, with their marks, or none.
    """
    from sqlite_utils import Database

    if not connection.in_transaction:
        raise RuntimeError("migrate needs an open transaction")
    # Plugins of sqlite-utils are for its command line, and must not change this connection.
    _migrations().apply(Database(connection, recursive_triggers=False, execute_plugins=False))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether the file has the current schema, and needs no migration."""
    return _marks(connection) == (APPLICATION_ID, SCHEMA_VERSION)


def check(connection: sqlite3.Connection, store: str) -> None:
    """Raise `StoreUnusable` for a database of another program, `StoreTooNew` for a newer durable's. Only reads."""
    # First the tables: another process may be making them now, and it sets the marks in the same transaction. In the
    # other order this might see no mark, and then the tables.
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    application, version = _marks(connection)
    if application != APPLICATION_ID and tables:
        raise StoreUnusable(store, "it is an SQLite database that holds other tables; give durable a separate file")
    if version > SCHEMA_VERSION:
        raise StoreTooNew(store, version, SCHEMA_VERSION)


def version(connection: sqlite3.Connection) -> int:
    """The schema version of a store; 0 for an empty file."""
    return _marks(connection)[1]


def pending(connection: sqlite3.Connection) -> list[str]:
    """The names of the migrations that this file has not run. Only reads."""
    from sqlite_utils import Database

    database = Database(connection, recursive_triggers=False, execute_plugins=False)
    return [migration.name for migration in _migrations().pending(database)]


def _marks(connection: sqlite3.Connection) -> tuple[int, int]:
    """The application id and the schema version in the header."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    return application, version
