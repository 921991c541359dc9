"""Dry runs: rebuild a body from a history under the current code, look at it, and throw it away.

Operators' changes are tried out this way before anything is written. Descriptions and terminate use it too. The body's
activities are not started, its events are not sent, and nothing is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from durable.engine.decide.body import rebuild
from durable.engine.decide.turn import Turn
from durable.errors import InvariantViolated, StorageError
from durable.model.records import HistoryEntry, ParkReason, WorkflowRecord
from durable.runner.fibers import WaitCondition
from durable.runner.past import NOTES
from durable.runner.replaying import parking_of
from durable.runner.results import SessionResult
from durable.runner.session import WorkflowSessionRunner
from durable.runner.undo import Owed

# How many recorded positions a refusal lists.
_NAMED_MAX = 12


class Tried(NamedTuple):
    """The outcome of a dry run. The body is closed already; `session` only serves to find coders."""

    session: WorkflowSessionRunner
    waits: dict[str, WaitCondition]
    result: SessionResult
    # Steps with an undo: those that may still be undone, and those that were undone. Both in the order of the steps.
    owed: list[Owed]
    undone: list[Owed]


class Misfit(NamedTuple):
    """Why a history does not fit the current code, as the workflow would be parked with it."""

    reason: ParkReason
    detail: str
    position: str | None = None


@contextmanager
def examined(
    turn: Turn, record: WorkflowRecord, history: Sequence[HistoryEntry]
) -> Iterator[tuple[WorkflowSessionRunner, SessionResult] | Misfit]:
    """A separate body, replayed to the end of a history, or why it does not fit. Closed at the end of the block."""
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
    """Replay a history under the current code: the outcome, or why it does not fit."""
    with examined(turn, record, history) as body:
        if isinstance(body, Misfit):
            return body
        session, result = body
        # A body that is only running its undos has failed again.
        ended = session.undone_failure or result
        return Tried(session, dict(session.waits), ended, session.owed()[::-1], session.undone())


def nothing_there(recorded: Sequence[HistoryEntry]) -> str:
    """The refusal for a position at which nothing is recorded. Lists the last positions that exist."""
    positions = list(dict.fromkeys(entry.position for entry in recorded if entry.position and entry.kind not in NOTES))
    if not positions:
        return "nothing is recorded yet"
    named = ", ".join(positions[-_NAMED_MAX:])
    return f"nothing is recorded there; recorded are {'..., ' if len(positions) > _NAMED_MAX else ''}{named}"
