"""What a body may know besides the results of its operations: the recorded time, and randomness that names decide.

Nothing here writes anything. `uuid` and `random` follow from the workflow's id, from the name that the caller passes
and from how often that name was drawn before, so one more call never changes what the others draw.
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
    """Who the running workflow is."""

    id: str
    name: str
    version: int = 1
    round: int = 0
    created_at: datetime
    tags: tuple[str, ...] = ()


def now() -> datetime:
    """The recorded time of the last thing this workflow learnt; the same on every replay."""
    return to_datetime(ambient("now").now)


def uuid(name: str = "") -> _uuid.UUID:
    """A UUID that is the same on every replay."""
    return _uuid.UUID(hex=digest(*draw("uuid", name)), version=4)


def random(name: str = "") -> Random:
    """A random generator whose numbers are the same on every replay."""
    return Random(seed(*draw("random", name)))


def info() -> WorkflowInfo:
    """Who this workflow is."""
    id, name, version, round, created_at, tags = ambient("info").who
    return WorkflowInfo(id=id, name=name, version=version, round=round, created_at=to_datetime(created_at), tags=tags)


def draw(kind: str, name: str) -> tuple[str, ...]:
    """Texts that no other draw of this workflow shares. Raises `OperationMisused` outside of a body."""
    session = ambient(kind)
    # What a fork has copied was drawn by another workflow.
    id = next((source for last, source in session.past.forks if session.fed < last), session.who.id)
    place, draws = _place_of_draw(session)
    return (id, str(session.who.round), kind, name, str(draws.count(kind, name)), *place)


def _place_of_draw(session: Ambient) -> tuple[tuple[str, ...], Draws]:
    """Where a draw is made, and what was drawn there before.

    In a loop that is the round, because a replay may not run the rounds before it.
    """
    for group in groups_around(stepping("draw").stepped):
        if isinstance(group, Rounds):
            return (f"{group.position}.{group.course.round}",), group.course.draws
    if session.draws is None:
        session.draws = Draws()
    return (), session.draws
