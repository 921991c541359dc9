"""Ended workflows that are older than `EngineConfig.retention` are removed, in small steps between other work.

The store has no index by the time of the end, so a pass goes through the workflows in the order in which they were
started, a page in each batch. It ends where they are younger than the retention: those cannot have ended before it.
Old workflows that have not ended are passed over, only so many in one sweep; the next sweep continues there.
"""

from __future__ import annotations

from durable.backends.base import Workflows
from durable.engine.decide.queries import purge
from durable.engine.decide.turn import Turn
from durable.engine.operations import ExpireWorkflows, Follow
from durable.model.clock import from_duration

# How many pages in a row may hold nothing to remove before the pass waits for the next sweep.
_PATIENCE = 50


def decide_expire_workflows(turn: Turn, op: ExpireWorkflows) -> int:
    """Remove what is too old of one page; how many. None goes whose parent may still ask for the result."""
    state = turn.state
    if state.config.retention is None:
        return 0
    before = turn.now - from_duration("retention", state.config.retention)
    page = state.backend.find(Workflows(after=state.expired_until, limit=op.limit))
    old = [record for record in page if record.created_at < before]
    purged = sum(purge(state, record) for record in old if ((record.mended or record).finished_at or before) < before)
    # Not one of them is old, or there are no more: from the start again at the next sweep.
    is_last = not old or len(page) < op.limit
    state.expired_until = 0 if is_last else page[-1].key
    barren = 0 if purged else op.barren + 1
    if not is_last and barren < _PATIENCE:
        turn.effects.append(Follow(ExpireWorkflows(barren, op.limit)))
    return purged
