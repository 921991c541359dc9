"""Who ends with whom: an index of the store in memory over the children that have not ended and are not kept.

Knows records, as a table's index does. Must not know why anybody asks.
"""

from __future__ import annotations

import attrs

from durable.model.records import OnParentClose, WorkflowRecord


@attrs.define(eq=False)
class Tied:
    """The keys of such children, by the key of their parent."""

    _children: dict[int, set[int]] = attrs.field(factory=dict)

    def put(self, record: WorkflowRecord) -> None:
        """A workflow is stored, or has changed."""
        if record.parent_key is None:
            return
        if record.finished_at is None and record.on_parent_close is not OnParentClose.KEEP:
            self._children.setdefault(record.parent_key, set()).add(record.key)
        else:
            self.drop(record)

    def drop(self, record: WorkflowRecord) -> None:
        """A workflow has ended, or is gone."""
        children = self._children.get(record.parent_key or 0)
        if children is not None:
            children.discard(record.key)
            if not children:
                del self._children[record.parent_key or 0]

    def of(self, parent: int) -> list[int]:
        """The children of one parent, in the order in which they were started."""
        return sorted(self._children.get(parent, ()))

    def __bool__(self) -> bool:
        return bool(self._children)
