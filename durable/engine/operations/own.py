"""Operations that the engine submits to itself, and the questions about its start.

An attempt has begun or ended, a timer is due, old rows are to be removed, the next page of workflows is to be
recovered, a letter from another shard is to be handled. No caller waits for these. They arrive from the activity pool,
from the timers, from the coordinator, or as a `Follow` of an earlier decision; a refusal is only logged.
"""

from __future__ import annotations

from typing import Any

import attrs

from durable.backends.base import StoredLetter
from durable.engine.operations.base import OfBody, Operation
from durable.engine.operations.schedules import TickSchedule
from durable.engine.operations.views import RecoveryReport
from durable.model.timers import OF_WORKFLOW, Timer


@attrs.define
class RecordActivity(OfBody):
    """An attempt of an activity has ended: `outcome` is its packed value, or its packed error.

    Every step makes one, so it is neither frozen nor keyword-only: either would triple the cost of making it.
    """

    key: int
    round: int
    position: str
    attempt: int
    outcome: str
    value: Any = None
    error: BaseException | None = None
    # The `mends` of the `RunActivity` that it answers; None if only one attempt can be meant.
    mends: int | None = None
    # When it was submitted; the inbox sets it.
    at: int = attrs.field(default=0, eq=False)


@attrs.frozen
class WakeWorkflow(OfBody):
    """A workflow's deadline has come."""

    key: int


def when_due(timer: Timer) -> WakeWorkflow | TickSchedule:
    """The operation for a timer that is due."""
    return WakeWorkflow(timer[2]) if timer[1] == OF_WORKFLOW else TickSchedule(timer[2])


@attrs.frozen
class ResumeWorkflow(OfBody):
    """Load a workflow and continue it: after a recovery, or with its next round."""

    key: int


@attrs.frozen
class SweepEvents(Operation[int]):
    """Remove a bounded number of events and sent ids that are too old."""

    limit: int = 500


@attrs.frozen
class CheckWaits(Operation[None]):
    """Check the waits of a workflow that an earlier decision left, because it had grown too long."""

    key: int


@attrs.frozen
class ExpireWorkflows(Operation[int]):
    """Look at one page of workflows, and remove those that ended longer ago than `EngineConfig.retention`."""

    # How many pages in a row before this one had nothing to remove.
    barren: int = 0
    limit: int = 50


# --- the start of an engine, and letters ------------------------------------------------------------------------------


@attrs.frozen
class BeginAttempt(Operation[None]):
    """An activity of a workflow on trial has begun. If the process dies soon after, the workflow is to blame."""

    key: int


@attrs.frozen
class RecoverWorkflows(Operation[RecoveryReport]):
    """Recover one page of running and parked workflows; the answer says where the next page begins."""

    after: int = 0
    # The last key to recover. Workflows that start meanwhile run already, and must not make the recovery endless.
    until: int | None = None


@attrs.frozen
class RecoverNext(Operation[None]):
    """Recover the next page, in the recovery with which this engine started."""


@attrs.frozen
class ReadRecovery(Operation[RecoveryReport]):
    """The result of the recovery with which this engine started. No call is decided before that is over."""


@attrs.frozen
class ReadLetter(Operation[None]):
    """Handle one letter of the inbox."""

    letter: StoredLetter
