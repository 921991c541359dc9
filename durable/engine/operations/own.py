"""What the engine asks of itself: an attempt has ended, a timer is due, old rows are removed."""

from __future__ import annotations

from typing import Any

import attrs

from durable.engine.operations.base import Operation
from durable.engine.operations.schedules import TickSchedule


@attrs.define
class RecordActivity(Operation[None]):
    """An attempt of an activity has ended: `outcome` is its packed value, or its packed error.

    Neither frozen nor by keyword, which would triple the cost of making one, and every step makes one.
    """

    key: int
    round: int
    position: str
    attempt: int
    outcome: str
    value: Any = None
    error: BaseException | None = None
    # That of the `RunActivity` which it answers; None where only one can be meant.
    mends: int | None = None
    # When it was submitted.
    at: int = attrs.field(default=0, eq=False)


@attrs.frozen
class WakeWorkflow(Operation[None]):
    """A workflow's deadline has come."""

    key: int


def when_due(key: int) -> Operation[None]:
    """What a timer that has come due asks for. The keys of schedules lie below zero."""
    return WakeWorkflow(key) if key > 0 else TickSchedule(key)


@attrs.frozen
class ResumeWorkflow(Operation[None]):
    """Load a workflow and go on with it: after a recovery, or with its next round."""

    key: int


@attrs.frozen
class SweepEvents(Operation[int]):
    """Remove a bounded number of events and sent ids that are too old."""

    limit: int = 500


@attrs.frozen
class CheckWaits(Operation[None]):
    """Look at the waits of a workflow that were put off, because the decision that began them had grown long."""

    key: int


@attrs.frozen
class ExpireWorkflows(Operation[int]):
    """Look at one page of workflows and remove those that ended long enough ago."""

    # How many pages before this one held nothing to remove.
    barren: int = 0
    limit: int = 50
