"""What a body may know beside the results of its operations: the recorded time, and randomness that follows from names.

Nothing here writes anything. `uuid` and `random` follow from the workflow's id, the name that is given and how often
that name was asked for, so one more call never shifts the others.
"""

from __future__ import annotations

import uuid as _uuid
from datetime import datetime
from random import Random

import attrs

from durable.clock import to_datetime
from durable.errors import OperationMisused
from durable.ids import digest, seed
from durable.runner.ops import STEPPING


@attrs.frozen(kw_only=True)
class WorkflowInfo:
    """Who the running workflow is."""

    id: str
    name: str
    version: int = 1
    round: int = 0
    created_at: datetime
    tags: tuple[str, ...] = ()


class Ambient:
    """What the verbs below read from the session that is stepping; the session derives from it."""

    def __init__(self, info: WorkflowInfo, now: int) -> None:
        self.info = info
        # The recorded time of the last thing the workflow learnt.
        self.now = now
        self._asked: dict[str, int] = {}

    def draw(self, kind: str, name: str) -> tuple[str, ...]:
        """Texts that no other draw of this workflow shares."""
        times = self._asked.get(f"{kind} {name}", 0)
        self._asked[f"{kind} {name}"] = times + 1
        return (self.info.id, str(self.info.round), kind, name, str(times))


def _ambient(verb: str) -> Ambient:
    session = STEPPING.get()
    if not isinstance(session, Ambient):
        raise OperationMisused(f"{verb}() works only inside a workflow body")
    return session


def now() -> datetime:
    """The recorded time of the last thing this workflow learnt; the same on every replay."""
    return to_datetime(_ambient("now").now)


def uuid(name: str = "") -> _uuid.UUID:
    """A UUID that is the same on every replay."""
    return _uuid.UUID(hex=digest(*_ambient("uuid").draw("uuid", name)), version=4)


def random(name: str = "") -> Random:
    """A random generator whose numbers are the same on every replay."""
    return Random(seed(*_ambient("random").draw("random", name)))


def info() -> WorkflowInfo:
    """Who this workflow is."""
    return _ambient("info").info
