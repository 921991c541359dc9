"""What people look at: how stores answer the questions that only views ask, in SQL and from memory.

Knows records and tables. Must not know how a view is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from durable.backends.base import Background, Backgrounds, ChildIds
from durable.backends.tables import Row, Table
from durable.records import Progress, WorkflowRecord


def _background(row: Row) -> Background:
    key, parent_id, progress = row
    return Background(key, parent_id, progress)


BACKGROUND = Table("workflow", "key:count id:text? value:text?", ("key",), _background)
# CROSS JOIN: for each key one search, and never the other way round.
BACKGROUNDS_SQL = (
    "SELECT w.key, p.id, g.value FROM json_each(:keys) AS asked CROSS JOIN workflow AS w ON w.key = asked.value "
    "LEFT JOIN workflow AS p ON p.key = w.parent_key LEFT JOIN progress AS g ON g.workflow = w.key LIMIT :limit"
)
CHILD_IDS_SQL = "SELECT id FROM workflow WHERE parent_key = :parent ORDER BY key DESC LIMIT :limit"
HISTORY_LENGTH_SQL = "SELECT count(*) FROM history WHERE workflow = :workflow"


def backgrounds_of(
    workflows: Mapping[int, WorkflowRecord], progress: Mapping[int, Progress], query: Backgrounds
) -> list[Background]:
    """The same from memory."""
    asked = [workflows[key] for key in query.workflow_keys if key in workflows]
    rows: list[Background] = []
    for record in asked:
        parent = workflows.get(record.parent_key or 0)
        published = progress.get(record.key)
        parent_id = None if parent is None else parent.id
        rows.append(Background(record.key, parent_id, None if published is None else published.value))
    return rows


def child_ids_of(newest_first: Iterable[WorkflowRecord], query: ChildIds) -> list[str]:
    """The same from memory."""
    ids = (record.id for record in newest_first if record.parent_key == query.parent_key)
    return list(islice(ids, query.limit))
