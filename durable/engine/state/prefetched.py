"""Rows of workflows that were read ahead for the open batch, in one query. Part of the coordinator's state.

Only a cache: what it does not hold is read from the store as it is needed. It cannot be stale. Within a batch nothing
changes the rows of this shard in the store, and `State` looks at the open batch first. The commit empties it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from durable.backends.base import Backend, TheseWorkflows
from durable.model.records import WorkflowRecord


class Prefetched:
    """The stored rows of workflows by id and by key. Damaged ones are returned as the store shows them."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        # None for those that the store does not have.
        self._by_id: dict[str, WorkflowRecord | None] = {}
        self._by_key: dict[int, WorkflowRecord | None] = {}

    def fetch(self, ids: Collection[str], keys: Collection[int]) -> None:
        """Read some rows at once. A single row is left to the decision that needs it: that is one query as well."""
        if len(ids) + len(keys) > 1:
            self._by_id.update(dict.fromkeys(ids))
            self._by_key.update(dict.fromkeys(keys))
            self.keep(self._backend.find(TheseWorkflows(ids=tuple(ids), keys=tuple(keys))))

    def keep(self, records: Iterable[WorkflowRecord]) -> None:
        """Keep rows that were just read from the store."""
        for record in records:
            self._by_id[record.id] = self._by_key[record.key] = record

    def workflow(self, id: str) -> WorkflowRecord | None:
        """The stored row of the workflow with this id."""
        return self._by_id[id] if id in self._by_id else self._backend.workflow(id)

    def workflow_by_key(self, key: int) -> WorkflowRecord | None:
        """The stored row of the workflow with this key."""
        return self._by_key[key] if key in self._by_key else self._backend.workflow_by_key(key)

    def forget(self) -> None:
        """The batch is committed: the rows may have changed."""
        self._by_id.clear()
        self._by_key.clear()
