"""Children that end with their parent: an index of the store in memory over those that have not ended and are not kept.

It follows from the records alone, like the index of a table. The engine asks for it when a parent ends.
"""

from __future__ import annotations

import attrs

from durable.model.records import OnParentClose, WorkflowRecord


@attrs.define(eq=False)
class Tied:
    """The keys of such children, by the key of their parent."""

    _children: dict[int, set[int]] = attrs.field(factory=dict)

    def put(self, record: WorkflowRecord) -> None:
        """Enter a workflow that was stored or changed, or remove it if it has ended."""
        if record.parent_key is None:
            return
        if record.finished_at is None and record.on_parent_close is not OnParentClose.KEEP:
            self._children.setdefault(record.parent_key, set()).add(record.key)
        else:
            self.drop(record)

    def drop(self, record: WorkflowRecord) -> None:
        """Remove a workflow that has ended or was purged. It need not be in the index."""
        children = self._children.get(record.parent_key or 0)
        if children is not None:
            children.discard(record.key)
            if not children:
                del self._children[record.parent_key or 0]

    def of(self, parent: int) -> list[int]:
        """The keys of one parent's children, in the order in which they were started."""
        return sorted(self._children.get(parent, ()))

    def __bool__(self) -> bool:
        return bool(self._children)
