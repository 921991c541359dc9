"""Races between an event and a timer: an event that is already pending wins, even if the timer is due at once.

A timer that is due normally ends without a wait. In a race it would then win before the engine could look for pending
events. So in a race with an event it opens a wait anyway, like the limit of `within`, and the engine delivers pending
events before it fires timers.

An older durable let such a timer win at once, and its histories must still replay: see `_is_looked_for`.
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

# The operations in which one branch beats the others.
RACES = (Race, FirstSuccess)


def waits_for_event(branch: Any) -> bool:
    """Whether events alone can finish a branch. Judged without running it, so a helper counts as no."""
    while isinstance(branch, (OrDefault, Undo, Within)):
        branch = branch.op
    if isinstance(branch, RACES):
        return any(map(waits_for_event, branch.branches))
    if isinstance(branch, (Gather, Settle)):
        return bool(branch.branches) and all(map(waits_for_event, branch.branches))
    return isinstance(branch, EventOp)


def race_of(timer: WaitCondition, waits: Iterable[WaitCondition]) -> Group | None:
    """The race in which `timer` is one branch and an event another; None if there is no such race.

    The wait of an event inside a helper is visible only once the helper has run, so only if it stands before the timer.
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
    """Whether a timer that is due must wait, so that a pending event can win.

    If so, the branches after the timer are closed before they begin, because the timer would have decided the race.
    Only those that wait for events stay.
    """
    race = race_of(timer, session.waits.values())
    if race is None or not _is_looked_for(session, race):
        return False
    for index, fiber in list(race.fibers.items()):
        if index > timer.fiber.index and not waits_for_event(race.rivals[index]):
            fiber.is_live = False
            fiber.body.close()
            del race.fibers[index]
    return True


def _is_looked_for(session: Ambient, race: Group) -> bool:
    """Whether the engine looks for pending events before the timers of this race, or did so on the recorded run.

    An older durable let the timer win at once and recorded nothing of the race. So a replayed race without an entry
    and without a stored event wait was decided that way.
    """
    if session.is_live or session.past.last_at(race.position) is not None:
        return True
    return any(map(Position(race.position).covers, session.registered()))


def rivals_of(op: Branches[Any]) -> tuple[Any, ...]:
    """The branches of a race; empty for an operation in which no branch beats another."""
    return op.branches if isinstance(op, RACES) else ()
