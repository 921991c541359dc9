"""Every state change and every question, as a value with the type of its answer.

Operations come from callers, from activities that have ended and from timers; all of them pass through one queue.
Effects are what leaves the coordinator after the commit; each names the round and attempt that it was decided for, so
that a late answer to an old one is known for what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import attrs

from durable.backends.base import Background, Workflows
from durable.codec import Arguments
from durable.engine.journal import Tell
from durable.engine.views import Description, RecoveryReport
from durable.errors import DurableError
from durable.records import HistoryEntry, OpenPause, Progress, WorkflowRecord, WorkflowStatus
from durable.runner.definitions import ActivityDef, WorkflowDef
from durable.schedule import Job, ScheduleRecord

A_co = TypeVar("A_co", covariant=True)


class Operation(Generic[A_co]):
    """Something for the coordinator to do; the answer is an `A_co`."""

    # It asks the store for many at once, so it comes after the commit of its batch: what was decided before it, a timer
    # that was due, say, is in the store by then.
    is_list: ClassVar[bool] = False


@attrs.frozen
class Delivered:
    """The event was taken, by these workflows."""

    to: tuple[str, ...]


@attrs.frozen
class Queued:
    """No workflow has taken the event yet: it is kept, or it is a dead letter if those who wait cannot read it."""


# --- from callers -------------------------------------------------------------------------------------------------


# The two that callers make by the thousand are not frozen, like `RecordActivity` below: it would double their cost.
@attrs.define(kw_only=True)
class StartWorkflow(Operation[WorkflowRecord]):
    """Begin a workflow, or find the one that was begun with the same call."""

    id: str
    name: str
    version: int = 1
    input: str
    # What the caller has at hand in this process, and what does not travel: the code, and the arguments as read back.
    definition: WorkflowDef[Any, Any] | None = attrs.field(default=None, eq=False)
    arguments: Arguments | None = attrs.field(default=None, eq=False)
    delay: int = 0
    tags: tuple[str, ...] = ()


@attrs.define(kw_only=True)
class SendEvent(Operation[Delivered | Queued]):
    """Give an event to who waits for it, or keep it."""

    name: str
    event_key: str = ""
    payload: str
    to: str | None = None
    allow_unstarted: bool = False
    consume: bool = True
    expire_after: int | None = None
    event_id: str | None = None
    # The type that the sender has packed it as; None where nobody knows. Only its name travels.
    payload_type: Any = attrs.field(default=None, eq=False)


@attrs.frozen
class CancelWorkflow(Operation[bool]):
    """Raise `Cancelled` in a workflow."""

    id: str
    reason: str | None = None


@attrs.frozen
class TerminateWorkflow(Operation[bool]):
    """End a workflow at once, without its cleanup."""

    id: str
    reason: str | None = None


@attrs.frozen
class FindWorkflow(Operation[WorkflowRecord | None]):
    """How a workflow stands."""

    id: str


@attrs.frozen
class AwaitEnd(Operation[WorkflowRecord]):
    """The record of a workflow once it has ended; the answer may take months."""

    id: str
    # If not, the record of a parked workflow is an answer too.
    wait_if_parked: bool = True


@attrs.frozen
class ReadProgress(Operation[Progress | None]):
    """What a workflow has published last."""

    id: str


@attrs.frozen
class Sight:
    """What is to be seen of a workflow at one moment; two are the same if nothing has changed in between."""

    status: WorkflowStatus
    # JSON text, None if nothing was published.
    progress: str | None
    at: int = attrs.field(eq=False)


@attrs.frozen
class AwaitChange(Operation[Sight]):
    """What is to be seen of a workflow once it is something else than what was seen; the answer may take months."""

    id: str
    seen: Sight | None = None


class Listed(NamedTuple):
    """One workflow of a list, and what is shown of it that does not stand in its own row."""

    record: WorkflowRecord
    background: Background

    @property
    def id(self) -> str:
        """The workflow's id."""
        return self.record.id


@attrs.frozen
class ListWorkflows(Operation[list[Listed]]):
    """A page of workflows; `after` is the id of the last one seen."""

    is_list = True

    query: Workflows
    after: str | None = None


@attrs.frozen
class CountWorkflows(Operation[int]):
    """How many workflows there are."""

    is_list = True

    query: Workflows


@attrs.frozen
class ReadHistory(Operation[list[HistoryEntry]]):
    """All that is recorded of a workflow."""

    id: str


@attrs.frozen
class DescribeWorkflow(Operation[Description]):
    """What a workflow waits for, since when, and where in its source."""

    id: str


@attrs.frozen
class PurgeWorkflows(Operation[int]):
    """Remove a bounded number of workflows that ended before an instant; the answer says how many."""

    finished_before: int
    limit: int = 500


@attrs.frozen(kw_only=True)
class ListPauses(Operation[list[OpenPause]]):
    """A page of open pauses, perhaps of one workflow, perhaps of those with one name."""

    is_list = True

    workflow_id: str | None = None
    name: str | None = None
    after: int
    limit: int


# The next two reply with a refusal instead of raising it: by then the workflow may have been loaded, and what follows
# from that is handled in any case.
@attrs.frozen
class ResumePause(Operation[DurableError | None]):
    """Give an open pause its answer, as JSON. The decision reads it as the type that the pause asks for."""

    workflow_id: str
    pause_id: str
    answer: str
    # The class of the value that was written, see `own_types`; None for plain JSON.
    written_as: str | None = None


@attrs.frozen
class CancelPause(Operation[DurableError | None]):
    """Raise `PauseCancelled` where a workflow has paused."""

    workflow_id: str
    pause_id: str
    reason: str | None = None


@attrs.frozen(kw_only=True)
class CreateSchedule(Operation[ScheduleRecord]):
    """Start a workflow again and again, or find the schedule that was created for the same job."""

    name: str
    job: Job
    # The code, which does not travel.
    definition: WorkflowDef[Any, Any] | None = attrs.field(default=None, eq=False)
    replace: bool = False


@attrs.frozen
class PauseSchedule(Operation[None]):
    """Let a schedule rest."""

    name: str


@attrs.frozen
class ResumeSchedule(Operation[None]):
    """Let a schedule go on with its next tick."""

    name: str


@attrs.frozen
class TriggerSchedule(Operation[WorkflowRecord]):
    """Start a run of a schedule now, or find the one that was started under this id."""

    name: str
    id: str


@attrs.frozen
class DeleteSchedule(Operation[None]):
    """Forget a schedule; its runs go on."""

    name: str


@attrs.frozen
class ListSchedules(Operation[list[ScheduleRecord]]):
    """A page of schedules by name."""

    is_list = True

    after: str | None
    limit: int


# --- from the engine itself ---------------------------------------------------------------------------------------


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
class BeginAttempt(Operation[None]):
    """An activity of a workflow on trial has begun: from now on it shows whether it takes the process down."""

    key: int


@attrs.frozen
class WakeWorkflow(Operation[None]):
    """A workflow's deadline has come."""

    key: int


@attrs.frozen
class TickSchedule(Operation[None]):
    """A schedule has ticks that are due, or one whose turn has come."""

    key: int


def when_due(key: int) -> Operation[None]:
    """What a timer that has come due asks for. The keys of schedules lie below zero."""
    return WakeWorkflow(key) if key > 0 else TickSchedule(key)


@attrs.frozen
class ResumeWorkflow(Operation[None]):
    """Load a workflow and go on with it: after a recovery, or with its next round."""

    key: int


@attrs.frozen
class RecoverWorkflows(Operation[RecoveryReport]):
    """Look over a page of running and parked workflows; the answer says where the next page begins."""

    after: int = 0
    # The last key to look over: what starts meanwhile runs already, and must not make a recovery endless.
    until: int | None = None


@attrs.frozen
class SweepEvents(Operation[int]):
    """Remove a bounded number of events and sent ids that are too old."""

    limit: int = 500


# --- effects ------------------------------------------------------------------------------------------------------


class RunActivity(NamedTuple):
    """Run one attempt of an activity on the loop. A tuple: every step makes one."""

    key: int
    workflow_id: str
    round: int
    position: str
    attempt: int
    definition: ActivityDef[Any, Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    # How often the workflow had been retried and repaired when this was decided: its arguments may be others since.
    mends: int = 0
    # Whether the coordinator wants to know when it begins.
    on_trial: bool = False
    workflow_name: str = ""


class StopActivity(NamedTuple):
    """Cancel an activity that nobody waits for any more."""

    key: int
    round: int
    position: str


class Follow(NamedTuple):
    """Put an operation into the queue, after the commit."""

    operation: Operation[Any]


class Ended(NamedTuple):
    """A workflow has ended: answer those who wait for it."""

    record: WorkflowRecord


class Parked(NamedTuple):
    """A workflow was parked: answer those who wait for its end and do not want to wait for a parked one."""

    record: WorkflowRecord


Effect = RunActivity | StopActivity | Follow | Ended | Parked | Tell
