"""Operations with which an operator corrects a workflow: retry, fork, repair.

The answer is None, or the refusal as a value: the decision may have loaded the workflow before it refuses (see
`pauses`). Refusals that come earlier, such as `WorkflowNotFound`, are raised.
"""

from __future__ import annotations

import attrs

from durable.engine.operations.base import OfWorkflow, Operation
from durable.errors import DurableError
from durable.model.homes import workflow_home


@attrs.frozen
class RetryWorkflow(OfWorkflow[DurableError | None]):
    """Continue a failed or parked workflow from where it stopped."""

    id: str
    reason: str | None = None


@attrs.frozen
class ForkWorkflow(Operation[DurableError | None]):
    """Start a workflow with a copy of another workflow's history, up to a position."""

    id: str
    position: str
    new_id: str

    def home(self, shards: int) -> int | None:
        return workflow_home(self.new_id, shards)

    def reads(self) -> tuple[str | int, ...]:
        return (self.id, self.new_id)


@attrs.frozen
class RepairWorkflow(OfWorkflow[DurableError | None]):
    """Replace a recorded result by a value, as JSON. The decision reads it as the type of that result."""

    id: str
    position: str
    value: str
    reason: str
    # The class that the value was written as, see `own_types`; None for plain JSON.
    written_as: str | None = None
