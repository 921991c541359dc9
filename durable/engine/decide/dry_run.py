"""What a history would come to under the code at hand, tried out before an operator's wish is carried out.

The body is thrown away afterwards, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from durable.engine.decide.body import rebuild
from durable.engine.decide.turn import Turn
from durable.errors import (
    InvariantViolated,
    StorageError,
)
from durable.model.records import HistoryEntry, ParkReason, WorkflowRecord
from durable.runner.fibers import WaitCondition
from durable.runner.past import NOTES
from durable.runner.replaying import parking_of
from durable.runner.results import SessionResult
from durable.runner.session import WorkflowSessionRunner
from durable.runner.undo import Owed

# How many recorded positions a refusal names.
_NAMED_MAX = 12


class Tried(NamedTuple):
    """What a history comes to under the code at hand. The body is thrown away."""

    session: WorkflowSessionRunner
    waits: dict[str, WaitCondition]
    result: SessionResult
    # Steps with an undo: those that may be undone still, and those that are undone. The first that was done first.
    owed: list[Owed]
    undone: list[Owed]


class Misfit(NamedTuple):
    """Why a history does not fit the code at hand."""

    reason: ParkReason
    detail: str
    position: str | None = None


@contextmanager
def examined(
    turn: Turn, record: WorkflowRecord, history: Sequence[HistoryEntry]
) -> Iterator[tuple[WorkflowSessionRunner, SessionResult] | Misfit]:
    """A body of its own to look at, brought to where the history ends, or why it does not fit. Nothing is written."""
    try:
        session, result = rebuild(turn, record, history)
    except (InvariantViolated, StorageError):
        raise
    except Exception as error:
        yield Misfit(*parking_of(error))
        return
    try:
        yield session, result
    finally:
        session.close()


def try_out(turn: Turn, record: WorkflowRecord, history: Sequence[HistoryEntry]) -> Tried | Misfit:
    """What comes of a history, or why it does not fit."""
    with examined(turn, record, history) as body:
        if isinstance(body, Misfit):
            return body
        session, result = body
        # One that only undoes has failed again.
        ended = session.undone_failure or result
        return Tried(session, dict(session.waits), ended, session.owed()[::-1], session.undone())


def nothing_there(recorded: Sequence[HistoryEntry]) -> str:
    """Why a position cannot be meant: which ones are recorded."""
    positions = list(dict.fromkeys(one.position for one in recorded if one.position and one.kind not in NOTES))
    if not positions:
        return "nothing is recorded yet"
    named = ", ".join(positions[-_NAMED_MAX:])
    return f"nothing is recorded there; recorded are {'..., ' if len(positions) > _NAMED_MAX else ''}{named}"
