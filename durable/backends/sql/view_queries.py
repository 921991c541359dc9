"""The SQL of questions that only views for people ask, and of the question what a workflow has in other tables."""

from __future__ import annotations

from durable.backends.base import Background
from durable.backends.sql.tables import Row, Table


def _background(row: Row) -> Background:
    key, parent_id, progress = row
    return Background(key, parent_id, progress)


BACKGROUND = Table("workflow", "key:count id:text? value:text?", ("key",), _background)
# CROSS JOIN makes SQLite search the table once per key, and never scan it.
BACKGROUNDS_SQL = (
    "SELECT w.key, p.id, g.value FROM json_each(:keys) AS asked CROSS JOIN workflow AS w ON w.key = asked.value "
    "LEFT JOIN workflow AS p ON p.key = w.parent_key LEFT JOIN progress AS g ON g.workflow = w.key LIMIT :limit"
)
CHILD_IDS_SQL = "SELECT id FROM workflow WHERE parent_key = :parent ORDER BY key DESC LIMIT :limit"
HISTORY_LENGTH_SQL = "SELECT count(*) FROM history WHERE workflow = :workflow"
_ATTACHED = (("history", "workflow"), ("event_wait", "workflow"), ("pending_event", "target"))
_TESTS = ", ".join(f"EXISTS (SELECT 1 FROM {table} WHERE {column} = asked.value)" for table, column in _ATTACHED)
ATTACHED_SQL = f"SELECT asked.value, {_TESTS} FROM json_each(:keys) AS asked LIMIT :limit"
