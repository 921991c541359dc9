"""How a session answers: the body waits, or it has ended in one of three ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import attrs

from durable.runner.definitions import ContinueRequested, WorkflowCall
from durable.runner.fibers import WaitCondition
from durable.runner.ops import Outcome, Raised, Returned


@attrs.frozen
class Completed:
    """The body returned."""

    value: Any


@attrs.frozen
class Failed:
    """The body raised."""

    error: BaseException


@attrs.frozen
class ContinueAs:
    """The body wants to go on as another call."""

    call: WorkflowCall[Any]


End: TypeAlias = Completed | Failed | ContinueAs


def end_of(outcome: Outcome | ContinueRequested, mistake: Raised | None) -> End:
    """How a workflow ends whose body has come to this.

    If it was told of a mistake and caught it, with a handler that takes everything, it has not ended well.
    """
    if mistake is not None and not isinstance(outcome, Raised):
        return Failed(mistake.error)
    if isinstance(outcome, ContinueRequested):
        return ContinueAs(outcome.call)
    return Completed(outcome.value) if isinstance(outcome, Returned) else Failed(outcome.error)


class Suspended:
    """The body waits: what it has asked for since the last answer, and what it no longer wants."""

    # Plain and slotted: every step makes one.
    __slots__ = ("opened", "withdrawn")

    def __init__(self, opened: Sequence[WaitCondition] = (), withdrawn: Sequence[WaitCondition] = ()) -> None:
        self.opened = opened
        self.withdrawn = withdrawn


SessionResult: TypeAlias = End | Suspended
