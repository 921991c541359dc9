"""An answer to a pause is refused, or a body gets no answer.

`PauseExpired` and `PauseCancelled` have two readers: the body that asked, and a person who answers too late.
"""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError


@attrs.frozen(slots=False)
class PauseNotFound(DurableError, LookupError):
    """The workflow does not have this pause: not yet, or no longer."""

    workflow_id: str
    pause_id: str

    says = (
        "workflow {workflow_id!r} has no pause {pause_id!r}: it may not have reached it yet, or may have withdrawn it; "
        "engine.pauses.list(workflow_id=...) shows the open pauses"
    )


@attrs.frozen(slots=False)
class PauseAlreadyAnswered(DurableError):
    """The pause was answered before. The first answer stands."""

    workflow_id: str
    pause_id: str

    says = (
        "pause {pause_id!r} of workflow {workflow_id!r} was already answered, and nothing was changed; "
        "engine.runs.history shows the answer"
    )


@attrs.frozen(slots=False)
class PauseExpired(DurableError, TimeoutError):
    """The pause was not answered in time. Raised in the workflow, and for an answer that comes too late."""

    workflow_id: str
    pause_id: str

    says = "pause {pause_id!r} of workflow {workflow_id!r} has expired"


@attrs.frozen(slots=False)
class PauseCancelled(DurableError):
    """`engine.pauses.cancel` took the question back. Raised in the workflow, and for an answer that comes later."""

    workflow_id: str
    pause_id: str
    reason: str | None = None

    def __str__(self) -> str:
        problem = f"pause {self.pause_id!r} of workflow {self.workflow_id!r} was cancelled"
        return problem + (f": {self.reason}" if self.reason else "")
