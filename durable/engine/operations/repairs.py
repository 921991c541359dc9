"""What an operator asks for to correct a workflow."""

from __future__ import annotations

import attrs

from durable.engine.operations.base import Operation
from durable.errors import DurableError


@attrs.frozen
class RetryWorkflow(Operation[DurableError | None]):
    """Let a failed or parked workflow go on from where it stopped."""

    id: str


@attrs.frozen
class ForkWorkflow(Operation[DurableError | None]):
    """Start a workflow that has learnt what another had learnt before a position."""

    id: str
    position: str
    new_id: str


@attrs.frozen
class RepairWorkflow(Operation[DurableError | None]):
    """Replace a recorded result by a value, as JSON. The decision reads it as the type of that result."""

    id: str
    position: str
    value: str
    reason: str
    # The class of the value that was written, see `own_types`; None for plain JSON.
    written_as: str | None = None
