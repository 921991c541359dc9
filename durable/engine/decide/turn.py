"""One decision in the making: the state it may change, the time, what leaves after the commit, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import attrs

from durable.engine.operations import Effect
from durable.engine.operations.messages import Messages
from durable.engine.state.bodies import Loaded
from durable.engine.state.state import State
from durable.model.records import EntryKind
from durable.runner.fibers import WaitCondition

# What the engine does about one wait of a live body.
Act: TypeAlias = Callable[["Turn", Loaded, WaitCondition], None]


@attrs.frozen(kw_only=True)
class WaitKind:
    """What the engine does for one kind of wait; the table is `decisions.WAIT_KINDS`."""

    # The body has begun to wait.
    opened: Act | None = None
    # The wait may have its answer: find it and feed it. Also done right after the wait was opened.
    look: Act | None = None
    # The body waits no more, though it got no answer: it lost a race, was cancelled, or its code has changed.
    withdrawn: Act | None = None
    # The deadline of the wait has come.
    due: Act | None = None
    # The answer is there at once. Only then is it known what the body really waits for.
    is_passing: bool = False


@attrs.define(eq=False)
class Turn:
    """What the decision functions share while one operation is decided."""

    state: State
    now: int
    kinds: Mapping[EntryKind, WaitKind]
    effects: list[Effect] = attrs.field(factory=list)
    # What follows in this decision.
    messages: Messages = attrs.field(factory=Messages)
