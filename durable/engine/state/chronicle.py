"""Histories and progress, over the store and the open batch. Part of the coordinator's state.

The open batch holds the new entries of all workflows in one list. Finding those of one workflow means going through
that list, so it is done only for workflows that can appear in it: those in memory, and those evicted or changed since
the batch was opened.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from durable.backends.base import Backend, Batch, HistoryLength, ProgressOf
from durable.engine.state.prefetched import Prefetched
from durable.model.records import HistoryEntry, Progress


class Chronicle:
    """The history of each workflow, and the progress that it has published."""

    def __init__(self, backend: Backend, prefetched: Prefetched, loaded: Container[int], let_go: set[int]) -> None:
        self.next_batch(Batch())
        self._backend = backend
        self._prefetched = prefetched
        self._loaded = loaded
        # Workflows evicted since the batch was opened. Only they and loaded workflows can have entries in it; scanning
        # a large batch for each of many other workflows would be quadratic.
        self._let_go = let_go

    def of(self, key: int) -> list[HistoryEntry]:
        """The history of a workflow's current round, in order. Raises `CodecError` for a damaged entry."""
        batch = self.batch
        is_new = key in batch.restarted or key in self._prefetched.without_history
        stored = [] if is_new else self._backend.history(key)
        if key in self._let_go or key in self._loaded:
            stored += [entry for owner, entry in batch.history if owner == key]
        if batch.history_trimmed:
            stored = [entry for entry in stored if (key, entry.seq) not in batch.history_trimmed]
        return stored

    def length(self, key: int) -> int:
        """How many entries are recorded of a workflow, without reading them."""
        batch = self.batch
        length = 0 if key in batch.restarted else self._backend.count(HistoryLength(key))
        if key in self._let_go or key in self._loaded:
            length += sum(owner == key for owner, _ in batch.history)
        return length - sum(owner == key for owner, _ in batch.history_trimmed)

    def next_batch(self, batch: Batch) -> None:
        """Write into this batch from now on. The state calls it after each commit."""
        self.batch = batch
        # Record one more entry of a workflow in memory. The method of the batch itself, because every step calls it.
        self.append = batch.history.add

    def add(self, key: int, entries: Iterable[HistoryEntry]) -> None:
        """Append entries to the history of a workflow that is not in memory."""
        self._let_go.add(key)
        for entry in entries:
            self.append(key, entry)

    def trim(self, key: int, entries: Iterable[int]) -> None:
        """Delete entries by number: finished rounds of loops, which no replay reads again."""
        self.batch.history_trimmed.update((key, entry) for entry in entries)

    def clear(self, key: int) -> None:
        """Delete a workflow's history; the next round starts with an empty one."""
        self.batch.history = self.batch.history.without(key)
        self.append = self.batch.history.add
        # The next round counts from 1 again, perhaps in this batch. A trim of the old round must not hit its entries.
        self.batch.history_trimmed = {(owner, entry) for owner, entry in self.batch.history_trimmed if owner != key}
        self.batch.restarted.add(key)

    def put_progress(self, progress: Progress) -> None:
        """Store what a workflow has published, in place of what it published before."""
        self.batch.progress_put[progress.workflow_key] = progress

    def progress_of(self, key: int) -> Progress | None:
        """The progress that a workflow has published last, if any."""
        if (fresh := self.batch.progress_put.get(key)) is not None:
            return fresh
        stored = self._backend.find(ProgressOf(key))
        return stored[0] if stored else None
