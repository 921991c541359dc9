"""What people look at, answered from memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from durable.backends.base import Background, Backgrounds, ChildIds
from durable.model.records import Progress, WorkflowRecord


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
