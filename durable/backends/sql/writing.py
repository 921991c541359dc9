"""One batch as SQL: first its drops, then its puts, in the caller's transaction.

Knows the tables and the fields of a batch. Knows nothing about when a transaction begins or ends, or what an error
means: SQLite's errors pass through to the store.

Each kind of change is one `executemany`, so the cost of a batch depends on its rows and hardly on the number of
workflows in it. Most puts are INSERT OR REPLACE, because a put of an existing row replaces it. Two are not: a new
workflow with an existing key is a bug and must fail, and so must a history entry with an existing `seq`.
"""

from __future__ import annotations

import operator
import sqlite3

from durable.backends.base import Batch
from durable.backends.sql import damaged, mail_rows, request_rows, rows, schedule_rows
from durable.errors import InvariantViolated

_INSERT_TAG = "INSERT INTO workflow_tag (tag, workflow) VALUES (?, ?)"
_INSERT_WORKFLOW = rows.WORKFLOW.insert()
_INSERT_HISTORY = rows.HISTORY.insert()
_PUT_WAIT = rows.WAIT.insert("INSERT OR REPLACE", without=rows.QUESTION)
_PUT_PAUSE = rows.WAIT.insert("INSERT OR REPLACE")
_PUT_EVENT = rows.EVENT.insert("INSERT OR REPLACE")
_PUT_LETTER = mail_rows.LETTER.insert("INSERT OR REPLACE")
_PUT_TAKEN = mail_rows.TAKEN.insert("INSERT OR REPLACE")
_PUT_SENT = rows.SENT.insert("INSERT OR REPLACE")
_PUT_PROGRESS = rows.PROGRESS.insert("INSERT OR REPLACE")
_PUT_ANSWER = request_rows.ANSWER.insert("INSERT OR REPLACE")
_KEEP_REQUEST = request_rows.KEPT.insert()
_PUT_SUSPECT = rows.SUSPECT.insert("INSERT OR REPLACE")
_PUT_SCHEDULE = schedule_rows.SCHEDULE.insert("INSERT OR REPLACE")


# For people who watch a row. No code reads it, so whatever value it holds must not make a commit fail.
_REVISION = f"revision = (ifnull(revision, 0) + 1) & {(1 << 62) - 1}"
# Only columns that can change: setting a column to the value that it has still costs time, also in its index.
_CHANGE_WORKFLOW = (
    f"UPDATE workflow SET {', '.join(f'{name} = ?' for name in rows.CHANGING)}, {_REVISION} WHERE key = ?"
)


# The columns that change when a workflow starts again, and the key last. Plain `?`: some Pythons read ?1 as a name.
_KEPT = {"key", "id", "created_at", "parent_key", "parent_place", "on_parent_close", "tags"}
_RESTARTING = [column for column in rows.WORKFLOW.columns if column not in _KEPT]
_RESTART_WORKFLOW = f"UPDATE workflow SET {', '.join(f'{name} = ?' for name in _RESTARTING)}, {_REVISION} WHERE key = ?"
_restart_row = operator.itemgetter(*map(rows.WORKFLOW.columns.index, [*_RESTARTING, "key"]))

_PURGE = (
    "DELETE FROM workflow WHERE key = ?",
    "DELETE FROM history WHERE workflow = ?",
    "DELETE FROM event_wait WHERE workflow = ?",
    "DELETE FROM pending_event WHERE target = ?",
    "DELETE FROM workflow_tag WHERE workflow = ?",
    "DELETE FROM progress WHERE workflow = ?",
    "DELETE FROM suspect WHERE workflow = ?",
    "DELETE FROM broadcast_taken WHERE workflow = ?",
)


def drop(connection: sqlite3.Connection, batch: Batch) -> None:
    """Delete what a batch drops. Call it before `put`."""
    run = connection.executemany
    if batch.workflows_purged:
        keys = [(key,) for key in batch.workflows_purged]
        for statement in _PURGE:
            run(statement, keys)
    if batch.restarted:
        run("DELETE FROM history WHERE workflow = ?", [(key,) for key in batch.restarted])
    if batch.waits_dropped:
        run("DELETE FROM event_wait WHERE workflow = ? AND position = ?", batch.waits_dropped)
    if batch.events_dropped:
        run("DELETE FROM pending_event WHERE serial = ?", [(serial,) for serial in batch.events_dropped])
    if batch.letters_dropped:
        run("DELETE FROM dead_letter WHERE id = ?", [(id,) for id in batch.letters_dropped])
    if batch.taken_cleared:
        run("DELETE FROM broadcast_taken WHERE workflow = ?", [(key,) for key in batch.taken_cleared])
    if batch.taken_swept:
        swept = [(*place, serial) for place, serial in batch.taken_swept.items()]
        run("DELETE FROM broadcast_taken WHERE name = ? AND event_key = ? AND serial < ?", swept)
    if batch.sent_dropped:
        run("DELETE FROM sent_event WHERE event_id = ?", [(event_id,) for event_id in batch.sent_dropped])
    if batch.answers_dropped:
        run("DELETE FROM answer WHERE request_id = ?", [(request_id,) for request_id in batch.answers_dropped])
    if batch.kept_dropped:
        run("DELETE FROM kept_request WHERE number = ?", [(number,) for number in batch.kept_dropped])
    if batch.schedules_dropped:
        run("DELETE FROM schedule WHERE key = ?", [(key,) for key in batch.schedules_dropped])
    if batch.suspects_dropped:
        run("DELETE FROM suspect WHERE workflow = ?", [(key,) for key in batch.suspects_dropped])


def put(connection: sqlite3.Connection, batch: Batch, damaged_keys: set[int]) -> None:
    """Write what a batch puts. A changed row of a damaged workflow is written whole, which repairs it."""
    run = connection.executemany
    if batch.workflows_new:
        run(_INSERT_WORKFLOW, [rows.workflow_row(record) for record in batch.workflows_new.values()])
        tagged = [(key, record.tags) for key, record in batch.workflows_new.items() if record.tags]
        if tagged:
            run(_INSERT_TAG, [(tag, key) for key, tags in tagged for tag in dict.fromkeys(tags)])
    if batch.workflows_changed:
        _update_workflows(connection, batch, damaged_keys)
    if batch.history:
        run(_INSERT_HISTORY, rows.history_rows(batch.history))
    if batch.history_trimmed:
        run("DELETE FROM history WHERE workflow = ? AND seq = ?", batch.history_trimmed)
    if batch.waits_put:
        waits = batch.waits_put.values()
        run(_PUT_WAIT, [rows.wait_row(wait) for wait in waits if wait.question is None])
        run(_PUT_PAUSE, rows.pause_rows(waits))
    if batch.events_put:
        run(_PUT_EVENT, [rows.event_row(event) for event in batch.events_put.values()])
    if batch.letters_put:
        run(_PUT_LETTER, [mail_rows.letter_row(letter) for letter in batch.letters_put.values()])
    if batch.taken_put:
        run(_PUT_TAKEN, [mail_rows.taken_row(taken) for taken in batch.taken_put.values()])
    if batch.sent_put:
        run(_PUT_SENT, [rows.sent_row(sent) for sent in batch.sent_put.values()])
    if batch.answers_put:
        run(_PUT_ANSWER, [request_rows.answer_row(answer) for answer in batch.answers_put.values()])
    if batch.kept_put:
        run(_KEEP_REQUEST, [request_rows.kept_row(kept) for kept in batch.kept_put.values()])
    if batch.progress_put:
        run(_PUT_PROGRESS, [rows.progress_row(progress) for progress in batch.progress_put.values()])
    if batch.schedules_put:
        run(_PUT_SCHEDULE, [schedule_rows.schedule_row(schedule) for schedule in batch.schedules_put.values()])
    if batch.suspects_put:
        run(_PUT_SUSPECT, batch.suspects_put.items())


def _update_workflows(connection: sqlite3.Connection, batch: Batch, damaged_keys: set[int]) -> None:
    """Update changed workflows: damaged rows whole, then restarted ones, and only the changing columns of all others.

    Raises `InvariantViolated` if a row is missing.
    """
    if damaged_keys and not damaged_keys.isdisjoint(batch.workflows_changed):
        repaired = [record for key, record in batch.workflows_changed.items() if key in damaged_keys]
        connection.executemany(damaged.MEND, [(*rows.workflow_row(record), record.key) for record in repaired])
    changed, restarted = batch.workflows_changed.values(), batch.restarted
    continuing = [rows.change_row(record) for record in changed if record.key not in restarted]
    count = connection.executemany(_CHANGE_WORKFLOW, continuing).rowcount if continuing else 0
    if restarted:
        restarting = [_restart_row(rows.workflow_row(record)) for record in changed if record.key in restarted]
        count += connection.executemany(_RESTART_WORKFLOW, restarting).rowcount if restarting else 0
    # An UPDATE of a missing row is not an error in SQL, and the change would be lost.
    if count != len(changed):
        raise InvariantViolated("a batch changes a workflow that is not stored")
