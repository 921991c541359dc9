"""A workflow does not exist, exists already, or did not end in the way the caller expects.

`handle.result()` raises `WorkflowFailed`, `WorkflowCancelled` and `WorkflowParked`.
"""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError
from durable.model.statuses import WorkflowStatus


@attrs.frozen(slots=False)
class WorkflowNotFound(DurableError, LookupError):
    """No workflow with this id is stored."""

    workflow_id: str

    says = "no workflow with id {workflow_id!r} is stored"


@attrs.frozen(slots=False)
class WorkflowAlreadyExists(DurableError):
    """The id belongs to a workflow that was started with a different call, other tags or another delay.

    `difference` says which. Starting the same call again is allowed and returns the existing run.
    """

    workflow_id: str
    name: str
    difference: str = "the id is taken"

    says = "workflow {workflow_id!r} already exists as {name!r}: {difference}; use another id, or repeat the same call"


class WorkflowTerminated(DurableError):
    """The workflow has ended with this `status`, so it accepts nothing more.

    The properties read `args`, which hold plain text: an error is stored as its `args` and restored from them.
    """

    def __init__(self, workflow_id: str, status: WorkflowStatus | str) -> None:
        super().__init__(workflow_id, WorkflowStatus(status).value)

    @property
    def workflow_id(self) -> str:
        """The id of the workflow."""
        id: str = self.args[0]
        return id

    @property
    def status(self) -> WorkflowStatus:
        """How it ended."""
        return WorkflowStatus(self.args[1])

    def __str__(self) -> str:
        return f"workflow {self.workflow_id!r} has ended ({self.status.value}) and accepts nothing more"


@attrs.frozen(slots=False)
class WorkflowFailed(DurableError):
    """The workflow ended with an error. `__cause__` is that error, rebuilt if its class is loaded."""

    workflow_id: str
    error_type: str
    message: str

    says = "workflow {workflow_id!r} failed with {error_type}: {message}"


@attrs.frozen(slots=False)
class WorkflowCancelled(DurableError):
    """The workflow was cancelled or terminated."""

    workflow_id: str
    reason: str | None

    def __str__(self) -> str:
        return f"workflow {self.workflow_id!r} was cancelled" + (f": {self.reason}" if self.reason else "")


@attrs.frozen(slots=False)
class WorkflowParked(DurableError):
    """The workflow is set aside until its code or its data fits again. It has no result, and accepts no answer now."""

    workflow_id: str
    detail: str

    says = (
        "workflow {workflow_id!r} is parked, and nothing is lost. Fix the problem below; the workflow continues after "
        "the next start or engine.runs.retry, and an open pause can be answered then. "
        "result(wait_if_parked=True) waits for that. It is parked because: {detail}"
    )


@attrs.frozen(slots=False)
class WrongWorkflow(DurableError):
    """A handle was made for one workflow, but its id belongs to a run of another."""

    workflow_id: str
    name: str
    expected: str

    says = (
        "workflow {workflow_id!r} runs {name!r}, not {expected!r}: "
        "pass handle() the id of a {expected!r} run, or the workflow that this id belongs to"
    )
