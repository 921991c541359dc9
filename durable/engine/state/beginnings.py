"""Whether a body has run: what this engine remembers, then what the row and the history tell (`model.begun`).

An engine remembers the workflows that it has stored and not run yet (`Workflows.not_begun`). It does not remember the
delayed starts: there may be a million of them, and their rows tell.
"""

from __future__ import annotations

from collections.abc import Sequence

from durable.engine.state.state import State
from durable.model.begun import Begun, begun
from durable.model.records import HistoryEntry, WorkflowRecord


def has_begun(state: State, record: WorkflowRecord, history: Sequence[HistoryEntry] | None = None) -> bool:
    """Whether the body of a workflow has run in its round. In doubt, it has.

    Without `history`, the number of its entries is read if the row alone does not tell. A suspended workflow that has
    not begun is always a delayed start. A fork that has not begun has a history.
    """
    if record.key in state.loaded:
        return True
    if record.key in state.workflows.not_begun:
        return False
    if begun(record, has_entries=False) is not Begun.NO:
        return True
    # If the clock was set back, a body may have a wait that is due at exactly the instant of its delayed start.
    return bool(state.chronicle.length(record.key) if history is None else history)
