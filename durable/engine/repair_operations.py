"""What an operator asks for to set a workflow right, as values. See `operations` for all others.

A refusal is an answer here: finding out may load a workflow, and what follows from that is worked off in any case.
"""

from __future__ import annotations

import attrs

from durable.codec import Coder
from durable.engine.operations import Operation
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
class FindStep(Operation[Coder | DurableError]):
    """How a result that is recorded at a position is written."""

    id: str
    position: str


@attrs.frozen
class RepairWorkflow(Operation[DurableError | None]):
    """Replace a recorded result by a value, which is JSON."""

    id: str
    position: str
    value: str
    reason: str
