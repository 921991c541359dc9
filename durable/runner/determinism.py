"""Time, randomness and identity for bodies: `now`, `uuid`, `random`, `info`. Nothing here is recorded.

`now` is the time of the last entry. `uuid` and `random` are derived from the workflow's id, the name that the caller
passes, and the number of earlier draws of that name. So a new call elsewhere in the body never changes the values of
existing calls.
"""

from __future__ import annotations

import uuid as _uuid
from datetime import datetime
from random import Random

import attrs

from durable.model.clock import to_datetime
from durable.model.ids import digest, seed
from durable.runner.ambient import Ambient, ambient, stepping
from durable.runner.draws import Draws
from durable.runner.fibers import groups_around
from durable.runner.loops import Rounds


@attrs.frozen(kw_only=True)
class WorkflowInfo:
    """The identity of the running workflow. `round` counts the `continue_as` of this id."""

    id: str
    name: str
    version: int = 1
    round: int = 0
    created_at: datetime
    tags: tuple[str, ...] = ()


def now() -> datetime:
    """The recorded time of the last entry that this workflow received; the same on every replay."""
    return to_datetime(ambient("now").now)


def uuid(name: str = "") -> _uuid.UUID:
    """A UUID that is the same on every replay."""
    return _uuid.UUID(hex=digest(*draw("uuid", name)), version=4)


def random(name: str = "") -> Random:
    """A new random generator with a fixed seed: its numbers are the same on every replay."""
    return Random(seed(*draw("random", name)))


def info() -> WorkflowInfo:
    """The identity of this workflow."""
    id, name, version, round, created_at, tags = ambient("info").who
    return WorkflowInfo(id=id, name=name, version=version, round=round, created_at=to_datetime(created_at), tags=tags)


def draw(kind: str, name: str) -> tuple[str, ...]:
    """Texts that are unique to this draw within the workflow. Raises `OperationMisused` outside of a body."""
    session = ambient(kind)
    # In a fork, the copied part was drawn under the id of the source.
    id = next((source for last, source in session.past.forks if session.fed < last), session.who.id)
    place, draws = _place_of_draw(session)
    return (id, str(session.who.round), kind, name, str(draws.count(kind, name)), *place)


def _place_of_draw(session: Ambient) -> tuple[tuple[str, ...], Draws]:
    """The scope of a draw, as extra texts, and the counters of that scope.

    Inside a loop the scope is the round, because a replay may skip earlier rounds and would miss their draws.
    """
    for group in groups_around(stepping("draw").stepped):
        if isinstance(group, Rounds):
            return (f"{group.position}.{group.course.round}",), group.course.draws
    if session.draws is None:
        session.draws = Draws()
    return (), session.draws
