"""Events against timers in a race: an event that is pending wins over a timer that is due at once.

A timer that is due needs no waiting, so it would win before anybody could look for the event. In a race with an event
it therefore waits to be fired, like the limit of `within`: what is pending is given out first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from durable.model.position import Position
from durable.model.records import EntryKind
from durable.runner.ambient import Ambient
from durable.runner.combinators import FirstSuccess, Gather, Race, Settle
from durable.runner.events import EventOp
from durable.runner.fibers import Group, WaitCondition
from durable.runner.ops import Branches, OrDefault, Undo, Within

# The groups that the first branch to succeed decides.
RACES = (Race, FirstSuccess)


def waits_for_event(branch: Any) -> bool:
    """Whether events alone can finish a branch, as far as can be seen without running it."""
    while isinstance(branch, (OrDefault, Undo, Within)):
        branch = branch.op
    if isinstance(branch, RACES):
        return any(map(waits_for_event, branch.branches))
    if isinstance(branch, (Gather, Settle)):
        return bool(branch.branches) and all(map(waits_for_event, branch.branches))
    return isinstance(branch, EventOp)


def race_of(timer: WaitCondition, waits: Iterable[WaitCondition]) -> Group | None:
    """The race in which a timer is a branch of its own and an event another; None if there is none.

    A helper is seen once it waits, so only one that stands before the timer is.
    """
    race = timer.fiber.owner
    if race is None or not race.rivals:
        return None
    branch = race.rivals[timer.fiber.index]
    while isinstance(branch, (OrDefault, Undo)):
        branch = branch.op
    if branch is not timer.op:
        return None
    if any(map(waits_for_event, race.rivals)):
        return race
    position = Position(race.position)
    is_open = any(wait.kind is EntryKind.EVENT and position.covers(wait.position) for wait in waits)
    return race if is_open else None


def has_rival(session: Ambient, timer: WaitCondition) -> bool:
    """Whether a timer that is due must let a pending event win. If so, what stands behind it never begins."""
    race = race_of(timer, session.waits.values())
    if race is None or not _is_looked_for(session, race):
        return False
    for index, fiber in list(race.fibers.items()):
        # Only an event can still beat the timer.
        if index > timer.fiber.index and not waits_for_event(race.rivals[index]):
            fiber.is_live = False
            fiber.body.close()
            del race.fibers[index]
    return True


def _is_looked_for(session: Ambient, race: Group) -> bool:
    """Whether pending events were, or will be, looked for before the timers of this race.

    An older durable let the timer win at once and recorded nothing of the race.
    """
    if session.is_live or session.past.last_at(race.position) is not None:
        return True
    return any(map(Position(race.position).covers, session.registered()))


def rivals_of(op: Branches[Any]) -> tuple[Any, ...]:
    """The branches of a race; nothing for a group in which no branch beats another."""
    return op.branches if isinstance(op, RACES) else ()
