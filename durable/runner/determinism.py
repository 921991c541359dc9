"""What a body may know beside the results of its operations: the recorded time, and randomness that follows from names.

Nothing here writes anything. `uuid` and `random` follow from the workflow's id, the name that is given and how often
that name was asked for, so one more call never shifts the others.
"""

from __future__ import annotations

import uuid as _uuid
from collections.abc import Iterable
from datetime import datetime
from random import Random
from typing import Any, NamedTuple, Protocol

import attrs

from durable.clock import to_datetime
from durable.errors import OperationMisused
from durable.ids import digest, seed
from durable.limit_errors import TooManyWaits
from durable.runner.limits import UNLIMITED, nesting_problem
from durable.runner.ops import STEPPING
from durable.runner.past import NOTHING, Past


class Identity(NamedTuple):
    """Who a workflow is, for its session. A tuple: every body has one, and few ever ask."""

    id: str
    name: str
    version: int
    round: int
    created_at: int
    tags: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class WorkflowInfo:
    """Who the running workflow is."""

    id: str
    name: str
    version: int = 1
    round: int = 0
    created_at: datetime
    tags: tuple[str, ...] = ()


class Positions(Protocol):
    """Says which positions there are, when it is asked."""

    def __call__(self) -> Iterable[str]: ...


class Ambient:
    """What the verbs below read from the session that is stepping; the session derives from it."""

    # Whether branches that have a name stand under it in positions. Not so in runs that older versions have begun.
    names_branches = True
    # The positions of the event waits that are stored; asked only by a race that is replayed. On the class, like the
    # next one, because few bodies need them: an object with more than 30 attributes costs a dict of its own.
    registered: Positions = tuple
    # Why the workflow must fail, and why it was cancelled.
    overrun: Exception | None = None
    _cancel_reason: str | None = None

    def __init__(self, who: Identity, now: int) -> None:
        self.who = who
        # The recorded time of the last thing the workflow learnt.
        self.now = now
        # What its history has said beforehand, and the entry that was fed last.
        self.past = NOTHING
        self.fed = 0
        # Whether the body does now what it has never done before, or does again what is recorded.
        self.is_live = True
        # Whether the body is being closed; and the answers of `patched` that are not recorded yet.
        self.closing = 0
        self.answers: tuple[tuple[str, bool], ...] = ()
        # How many waits may be open at once.
        self.max_waits = UNLIMITED
        self._asked: dict[str, int] = {}

    def is_beyond(self, waits: int, body: Any = None) -> bool:
        """Whether so many waits, or the nesting of a body, are too much: then the workflow must fail."""
        if waits > self.max_waits:
            self.overrun = TooManyWaits(self.who.name, self.max_waits)
        elif body is not None:
            self.overrun = nesting_problem(self.who.name, body)
        return self.overrun is not None

    def draw(self, kind: str, name: str) -> tuple[str, ...]:
        """Texts that no other draw of this workflow shares."""
        id, where, asked = self._drawing()
        times = asked.get(f"{kind} {name}", 0)
        asked[f"{kind} {name}"] = times + 1
        return (id, str(self.who.round), kind, name, str(times), *where)

    def _drawing(self) -> tuple[str, tuple[str, ...], dict[str, int]]:
        """From which id and place draws follow now, and how often which name was drawn there.

        What a fork has copied was drawn by another workflow.
        """
        id = next((source for last, source in self.past.forks if self.fed < last), self.who.id)
        return id, (), self._asked

    def patched(self, change_id: str) -> bool:
        """Whether the body takes the new code; the first answer stands."""
        known = self.past.patches.get(change_id)
        if known is None:
            known = self.is_live
            if not self.closing:
                self._answer(change_id, known)
        return known

    def _answer(self, change_id: str, answer: bool) -> None:
        if self.past is NOTHING:
            self.past = Past()
        self.past.patches[change_id] = answer
        self.answers += ((change_id, answer),)


def ambient(verb: str) -> Ambient:
    """The session that is stepping. Raises `OperationMisused` outside of a body."""
    session = STEPPING.get()
    if not isinstance(session, Ambient):
        raise OperationMisused(f"{verb}() works only inside a workflow body")
    return session


def now() -> datetime:
    """The recorded time of the last thing this workflow learnt; the same on every replay."""
    return to_datetime(ambient("now").now)


def uuid(name: str = "") -> _uuid.UUID:
    """A UUID that is the same on every replay."""
    return _uuid.UUID(hex=digest(*ambient("uuid").draw("uuid", name)), version=4)


def random(name: str = "") -> Random:
    """A random generator whose numbers are the same on every replay."""
    return Random(seed(*ambient("random").draw("random", name)))


def info() -> WorkflowInfo:
    """Who this workflow is."""
    id, name, version, round, created_at, tags = ambient("info").who
    return WorkflowInfo(id=id, name=name, version=version, round=round, created_at=to_datetime(created_at), tags=tags)
