"""One decision in the making: the state it may change, the time, what leaves after the commit, and what follows."""

from __future__ import annotations

import attrs

from durable.engine.messages import Messages
from durable.engine.operations import Effect
from durable.engine.state.state import State


@attrs.define(eq=False)
class Turn:
    """What the decision functions share while one operation is decided."""

    state: State
    now: int
    effects: list[Effect] = attrs.field(factory=list)
    # What follows in this decision.
    messages: Messages = attrs.field(factory=Messages)
    # How many children a workflow has started in this turn, by its key.
    started: dict[int, int] = attrs.field(factory=dict)
