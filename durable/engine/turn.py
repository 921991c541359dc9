"""One decision in the making: the state it may change, the time, what is to leave after the commit, and what follows.

Things that follow from a decision (a child that has ended wakes its parent, a withdrawn child is cancelled, an event
is offered again) are queued here and worked off in the same decision, by a loop and not by recursion.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

import attrs

from durable.engine.operations import Effect
from durable.engine.state import State
from durable.records import CancelCause, PendingEvent, WorkflowRecord

A = TypeVar("A")


@attrs.define(eq=False)
class Turn:
    """What the decision functions share while one operation is decided."""

    state: State
    now: int
    effects: list[Effect] = attrs.field(factory=list)
    # (workflow key, position): waits for an event or a child that may have an answer already.
    checks: deque[tuple[int, str]] = attrs.field(factory=deque)
    # Workflows whose due timers fire once those checks are done: what is pending comes before a limit that is over.
    wakes: deque[int] = attrs.field(factory=deque)
    # (workflow id, parent key, place in the parent, reason): children that nobody waits for any more.
    cancels: deque[tuple[str, WorkflowRecord, str, CancelCause]] = attrs.field(factory=deque)
    # Events that have become untargeted.
    offers: deque[PendingEvent] = attrs.field(factory=deque)
    # How many children a workflow has started in this turn, by its key.
    started: dict[int, int] = attrs.field(factory=dict)


@attrs.frozen
class Decision(Generic[A]):
    """What was decided. The writes stand in the state's open batch; nothing of this leaves before its commit."""

    reply: A
    effects: list[Effect]
