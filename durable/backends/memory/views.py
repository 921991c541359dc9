"""Answers about workflows: some of them by id and key, what is attached to them, and what views show of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from itertools import islice

from durable.backends.base import Attached, AttachedTo, Background, Backgrounds, ChildIds, TheseWorkflows
from durable.model.records import Progress, WorkflowRecord


def these_workflows(
    workflows: Mapping[int, WorkflowRecord], keys: Mapping[str, int], query: TheseWorkflows
) -> list[WorkflowRecord]:
    """The queried workflows that exist."""
    asked = [*(keys[id] for id in query.ids if id in keys), *query.keys]
    return [workflows[key] for key in asked if key in workflows]


def attached_to(
    history: Mapping[int, Sized], waits: Mapping[int, Sized], boxes: Mapping[int | None, Sized], query: AttachedTo
) -> list[Attached]:
    """Which of three tables have rows for each of the queried workflows."""
    return [
        Attached(key, bool(history.get(key)), bool(waits.get(key)), bool(boxes.get(key))) for key in query.workflow_keys
    ]


def backgrounds_of(
    workflows: Mapping[int, WorkflowRecord], progress: Mapping[int, Progress], query: Backgrounds
) -> list[Background]:
    """For each queried workflow that exists: the id of its parent and its progress, None where there is none."""
    records = [workflows[key] for key in query.workflow_keys if key in workflows]
    rows: list[Background] = []
    for record in records:
        parent = workflows.get(record.parent_key or 0)
        published = progress.get(record.key)
        parent_id = None if parent is None else parent.id
        rows.append(Background(record.key, parent_id, None if published is None else published.value))
    return rows


def child_ids_of(newest_first: Iterable[WorkflowRecord], query: ChildIds) -> list[str]:
    """The ids of a workflow's newest children, ended or not."""
    ids = (record.id for record in newest_first if record.parent_key == query.parent_key)
    return list(islice(ids, query.limit))
