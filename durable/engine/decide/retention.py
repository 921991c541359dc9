"""Ended workflows that are older than `EngineConfig.retention` are removed, in small steps between other work.

The store has no index by end time, so a pass goes through the workflows in the order in which they were created, one
page per batch. It ends at the first page with only workflows younger than the retention, which cannot have ended
before it. Old workflows that have not ended are skipped. After `_PATIENCE` pages without a removal the pass stops, and
the next sweep continues there.
"""

from __future__ import annotations

from durable.backends.base import Workflows
from durable.engine.decide.queries import purge
from durable.engine.decide.turn import Turn
from durable.engine.operations import ExpireWorkflows, Follow
from durable.model.clock import from_duration

# How many pages in a row may have nothing to remove before the pass waits for the next sweep.
_PATIENCE = 50


def decide_expire_workflows(turn: Turn, op: ExpireWorkflows) -> int:
    """Remove the expired workflows of one page. Returns how many.

    A child stays while its parent may still ask for its result.
    """
    state = turn.state
    if state.config.retention is None:
        return 0
    before = turn.now - from_duration("retention", state.config.retention)
    page = state.backend.find(Workflows(after=state.expired_until, limit=op.limit))
    old = [record for record in page if record.created_at < before]
    purged = sum(purge(state, record) for record in old if ((record.mended or record).finished_at or before) < before)
    # None of them is old, or there are no more pages: the next sweep begins at the start.
    is_last = not old or len(page) < op.limit
    state.expired_until = 0 if is_last else page[-1].key
    barren = 0 if purged else op.barren + 1
    if not is_last and barren < _PATIENCE:
        turn.effects.append(Follow(ExpireWorkflows(barren, op.limit)))
    return purged
