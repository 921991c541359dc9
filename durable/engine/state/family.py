"""The children of a workflow, over the store and the open batch.

A child knows its parent's key; a parent has no list of its children. So these functions search, and are called only
when a workflow ends or is described. They see the children in this shard only.
"""

from __future__ import annotations

from durable.backends.base import ChildIds, Children
from durable.engine.state.state import State
from durable.model.records import WorkflowRecord


def living_children(state: State, parent_key: int) -> list[WorkflowRecord]:
    """The children of a workflow that have not ended.

    Children that the store holds are included only if they end with their parent; new ones always are.
    """
    children = {child.key: child for child in state.backend.find(Children(parent_key))}
    children |= {child.key: child for child in _new_children(state, parent_key)}
    current = [state.batch.workflows_changed.get(key, child) for key, child in children.items()]
    return [child for child in current if not child.status.is_terminal]


def newest_child_ids(state: State, parent_key: int, limit: int) -> tuple[str, ...]:
    """The ids of the newest children, those of the open batch first."""
    ids = [child.id for child in reversed(_new_children(state, parent_key))]
    if len(ids) < limit:
        ids += state.backend.find(ChildIds(parent_key, limit - len(ids)))
    return tuple(ids[:limit])


def _new_children(state: State, parent_key: int) -> list[WorkflowRecord]:
    return [child for child in state.batch.workflows_new.values() if child.parent_key == parent_key]
