"""Rows of workflows that were read ahead for the open batch, in two queries. Part of the coordinator's state.

The first query reads the workflows themselves. The second one asks which of those that will be stepped have a history,
waits or mail: few have all three, and what is not there need not be looked for one by one.

Only a cache: what it does not hold is read from the store as it is needed. It cannot be stale. Within a batch nothing
changes the rows of this shard in the store, and `State` looks at the open batch first. The commit empties it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from durable.backends.base import AttachedTo, Backend, TheseWorkflows
from durable.model.records import WorkflowRecord


class Prefetched:
    """The stored rows of workflows by id and by key. Damaged ones are returned as the store shows them."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        # None for those that the store does not have.
        self._by_id: dict[str, WorkflowRecord | None] = {}
        self._by_key: dict[int, WorkflowRecord | None] = {}
        # Workflows without stored rows in another table.
        self.without_history: set[int] = set()
        self.without_waits: set[int] = set()
        self.without_mail: set[int] = set()

    def fetch(self, ids: Collection[str], keys: Collection[int]) -> None:
        """Read some rows at once. A single row is left to the decision that needs it: that is one query as well."""
        if len(ids) + len(keys) > 1:
            self._by_id.update(dict.fromkeys(ids))
            self._by_key.update(dict.fromkeys(keys))
            self.keep(self._backend.find(TheseWorkflows(ids=tuple(ids), keys=tuple(keys))))

    def look_for_attached(self, keys: Iterable[int]) -> None:
        """Note what workflows do not have, of those whose rows were read and that have not ended."""
        records = map(self._by_key.get, keys)
        living = [record.key for record in records if record is not None and not record.status.is_terminal]
        if len(living) > 1:
            for key, has_history, has_waits, has_mail in self._backend.find(AttachedTo(tuple(living))):
                if not has_history:
                    self.without_history.add(key)
                if not has_waits:
                    self.without_waits.add(key)
                if not has_mail:
                    self.without_mail.add(key)

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
        if self._by_key or self._by_id:
            for cache in (self._by_id, self._by_key, self.without_history, self.without_waits, self.without_mail):
                cache.clear()
