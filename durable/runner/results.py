"""The results of `start` and `feed`: the body waits (`Suspended`), or it has ended in one of three ways (`End`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import attrs

from durable.runner.definitions import ContinueRequested, WorkflowCall
from durable.runner.fibers import WaitCondition
from durable.runner.ops import Outcome, Raised, Returned


@attrs.frozen
class Completed:
    """The body returned `value`, which is not encoded yet."""

    value: Any


@attrs.frozen
class Failed:
    """The body raised."""

    error: BaseException


@attrs.frozen
class ContinueAs:
    """The body raised `continue_as`: it continues as another call under the same id."""

    call: WorkflowCall[Any]


End: TypeAlias = Completed | Failed | ContinueAs


def end_of(outcome: Outcome | ContinueRequested, mistake: Raised | None) -> End:
    """The end of a workflow whose body ended with `outcome`.

    If a mistake was thrown into the body and a bare `except:` caught it, a good outcome still becomes a failure.
    """
    if mistake is not None and not isinstance(outcome, Raised):
        return Failed(mistake.error)
    if isinstance(outcome, ContinueRequested):
        return ContinueAs(outcome.call)
    return Completed(outcome.value) if isinstance(outcome, Returned) else Failed(outcome.error)


class Suspended:
    """The body waits. `opened` and `withdrawn` are the waits that have changed since the last result."""

    # Plain and slotted: every step creates one.
    __slots__ = ("opened", "withdrawn")

    def __init__(self, opened: Sequence[WaitCondition] = (), withdrawn: Sequence[WaitCondition] = ()) -> None:
        self.opened = opened
        self.withdrawn = withdrawn


SessionResult: TypeAlias = End | Suspended
