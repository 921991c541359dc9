"""A round of a loop has ended: the state for the next round is recorded.

From then on replay starts at that state, and the entries of the finished round are trimmed (`body.advance`).
"""

from __future__ import annotations

from durable.engine.decide.body import feed
from durable.engine.decide.endings import check_payload
from durable.engine.decide.turn import Turn
from durable.engine.state.workflows import Loaded
from durable.errors import PayloadTooLarge
from durable.model.error_codec import pack_error
from durable.model.records import EntryStatus
from durable.runner.fibers import WaitCondition


def check_state(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """Record a state and continue, in the commit that ends the round. If it is too large, the body gets an error."""
    try:
        check_payload(turn, "loop: state", wait.input)
    except PayloadTooLarge as error:
        feed(turn, loaded, wait, EntryStatus.ERROR, pack_error(error))
    else:
        feed(turn, loaded, wait, EntryStatus.OK, wait.input)
