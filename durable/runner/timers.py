"""The functions for timers in the table of `kinds`. The operation itself is in `ops`, because `within` needs it there.

The engine fires a timer by an entry at or after the deadline. Times are microseconds since the epoch.
"""

from __future__ import annotations

from datetime import datetime

from durable.model.clock import later, to_datetime
from durable.model.codec import Codec
from durable.model.records import HistoryEntry
from durable.runner.ambient import Ambient
from durable.runner.fibers import WaitCondition
from durable.runner.ops import Outcome, Returned, Timer
from durable.runner.rivals import has_rival


def prepare_timer(op: Timer, wait: WaitCondition, session: Ambient) -> Outcome | None:
    """Set the deadline. An eager timer that is due already ends at once, unless a pending event may beat it."""
    now = session.now
    wait.deadline = op.until if op.duration is None else later("sleep", now, op.duration)
    if op.eager and wait.deadline is not None and wait.deadline <= now and not has_rival(session, wait):
        return Returned(to_datetime(now))
    return None


def fired_at(op: Timer, entry: HistoryEntry, codec: Codec) -> datetime:
    """The result of a timer: the recorded instant at which it fired."""
    return to_datetime(entry.at_us)


def keeps_deadline(op: Timer, is_begun: bool) -> bool:
    """Whether a timer keeps its deadline when a workflow that stood still is resumed.

    A sleep does, unless it has a duration and counts as new (`is_begun`). The limit of `within` does not.
    """
    return op.eager and not (is_begun and op.duration is not None)
