"""`Turn`: what decision functions share, and `WaitKind`: what the engine does for one kind of wait."""

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
    # The wait may have its answer: find it and feed it. Also called right after the wait was opened.
    look: Act | None = None
    # The body stopped waiting without an answer: it lost a race, was cancelled, or its code has changed.
    withdrawn: Act | None = None
    # The deadline of the wait has passed.
    due: Act | None = None
    # `look` always feeds an answer, in the same decision. What the body really waits for is known only after that.
    is_passing: bool = False


@attrs.define(eq=False)
class Turn:
    """What decision functions share while the operations of one batch are decided.

    Decisions add `effects`, which leave after the commit, and `messages`, which are handled before the next operation.
    """

    state: State
    now: int
    kinds: Mapping[EntryKind, WaitKind]
    effects: list[Effect] = attrs.field(factory=list)
    # What follows from this decision, for the same or other workflows.
    messages: Messages = attrs.field(factory=Messages)
