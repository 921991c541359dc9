"""An answer to a pause is refused, or a body learns that there is no answer."""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError


@attrs.frozen(slots=False)
class PauseNotFound(DurableError, LookupError):
    """The workflow has no such pause: not yet, or not any more."""

    workflow_id: str
    pause_id: str

    says = (
        "workflow {workflow_id!r} has no pause {pause_id!r}: it may not have come to it yet, or may have withdrawn it; "
        "engine.pauses.list(workflow_id=...) shows what is open"
    )


@attrs.frozen(slots=False)
class PauseAlreadyAnswered(DurableError):
    """Somebody has answered before; the first answer stands."""

    workflow_id: str
    pause_id: str

    says = (
        "pause {pause_id!r} of workflow {workflow_id!r} is answered already and nothing was changed; "
        "engine.runs.history shows the answer"
    )


@attrs.frozen(slots=False)
class PauseExpired(DurableError, TimeoutError):
    """Nobody has answered in time: raised in the workflow, and to whoever comes too late."""

    workflow_id: str
    pause_id: str

    says = "pause {pause_id!r} of workflow {workflow_id!r} has expired"


@attrs.frozen(slots=False)
class PauseCancelled(DurableError):
    """The question was taken back by `engine.pauses.cancel`: raised in the workflow, and to whoever answers later."""

    workflow_id: str
    pause_id: str
    reason: str | None = None

    def __str__(self) -> str:
        said = f"pause {self.pause_id!r} of workflow {self.workflow_id!r} was cancelled"
        return said + (f": {self.reason}" if self.reason else "")
