"""What observers are told: one closed union of frozen values, `Fact`.

A fact is something that has happened and stays true. Decisions make facts as effects, so they leave after the commit of
their batch, in the order of the decisions, once, and not at all if the commit fails for good. Facts about attempts come
from the place where they run, and facts about commits, recovery and shutdown from the engine itself.

Most facts are about things that go well, many times a second. They are made only if somebody wants them
(`State.is_observed`), so an engine without observers pays nothing for them. Those for which the log has a line
(`log_lines.LINES`) are rare, and made in any case.

Instants and durations are integer microseconds, and say so in their names. `at` is the same instant as a datetime.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeAlias

import attrs

from durable.model.clock import to_datetime
from durable.model.statuses import WorkflowStatus


@attrs.frozen(kw_only=True)
class _At:
    """A fact with an instant."""

    at_us: int

    @property
    def at(self) -> datetime:
        """When it happened, or was decided."""
        return to_datetime(self.at_us)


@attrs.frozen(kw_only=True)
class _OfWorkflow(_At):
    """A fact about one workflow."""

    workflow_id: str
    workflow_name: str


@attrs.frozen(kw_only=True)
class _OfAttempt(_OfWorkflow):
    """A fact about one attempt of an activity. `round` counts calls of `continue_as`: positions start again in each."""

    activity: str
    position: str
    attempt: int
    round: int = 0


# --- a workflow -------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class WorkflowStarted(_OfWorkflow):
    """A workflow is stored. `trace` is the caller's trace context (`split_trace`), `parent_id` that of a child."""

    status: WorkflowStatus
    start_at_us: int
    parent_id: str | None = None
    trace: str | None = None


@attrs.frozen(kw_only=True)
class BodyStepped(_OfWorkflow):
    """A body took one step. `kind`, `name` and `position` are those of the result that it got, empty for the first.

    Never told of a replay. `waits` is the number of waits that are open after it, `trace` as in `WorkflowStarted`.
    """

    kind: str = ""
    name: str = ""
    position: str = ""
    round: int = 0
    took_us: int = 0
    waits: int = 0
    started_at_us: int = 0
    trace: str | None = None


@attrs.frozen(kw_only=True)
class WorkflowWaiting(_OfWorkflow):
    """A workflow is suspended: no activity of it is open. `wake_at_us` is its earliest deadline, if it has one."""

    wake_at_us: int | None = None


@attrs.frozen(kw_only=True)
class WorkflowResumed(_OfWorkflow):
    """A suspended workflow runs again."""


@attrs.frozen(kw_only=True)
class WorkflowContinued(_OfWorkflow):
    """A workflow has called `continue_as`. `workflow_name` is that of the new round."""

    round: int


@attrs.frozen(kw_only=True)
class WorkflowReplayed(_OfWorkflow):
    """A body was rebuilt from its history, which had so many entries."""

    entries: int


@attrs.frozen(kw_only=True)
class WorkflowEnded(_OfWorkflow):
    """A workflow has ended. `error` is its stored error, which `error_summary` reads."""

    status: WorkflowStatus
    started_at_us: int
    round: int = 0
    error: str | None = None
    trace: str | None = None


@attrs.frozen(kw_only=True)
class WorkflowParked(_OfWorkflow):
    """A workflow is set aside. `reason` is the stored value of a `ParkReason`, `position` that of the culprit entry."""

    reason: str
    detail: str
    position: str | None = None


@attrs.frozen(kw_only=True)
class WorkflowUnparked(_OfWorkflow):
    """A workflow that was parked runs again."""


@attrs.frozen(kw_only=True)
class UndoFailed(_OfWorkflow):
    """An undo has failed: its step stays done although the workflow failed or was cancelled."""

    position: str
    text: str


@attrs.frozen(kw_only=True)
class BodyDied(_OfWorkflow):
    """The process died while this body ran: crash number `crashes` in a row of the `limit` that are allowed."""

    crashes: int
    limit: int


# --- attempts ---------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class AttemptQueued(_OfAttempt):
    """An attempt was handed to the activity pool."""


@attrs.frozen(kw_only=True)
class AttemptBegun(_OfAttempt):
    """An attempt runs. `trace` is the trace context of its workflow."""

    trace: str | None = None
    started_at_us: int = 0


@attrs.frozen(kw_only=True)
class AttemptFinished(_OfAttempt):
    """An attempt has ended in this process: its `outcome` is "ok", "failed" or "stopped".

    Told where it ran, at once. What the workflow makes of a failure follows as `AttemptFailed`, after the commit. One
    that was stopped before it began has `has_begun` False.
    """

    outcome: str
    took_us: int
    has_begun: bool = True
    error_type: str | None = None


@attrs.frozen(kw_only=True)
class AttemptFailed(_OfAttempt):
    """A failed attempt is recorded. The next one follows after `delay_us`; None means that it was the last."""

    error: str
    delay_us: int | None


# --- events, timers, dead letters -------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class EventSent(_At):
    """An event was accepted. `takers` is the number of workflows that took it at once."""

    event: str
    to: str | None = None
    takers: int = 0
    trace: str | None = None


@attrs.frozen(kw_only=True)
class EventTaken(_OfWorkflow):
    """A workflow took an event, `lag_us` after it was sent. `trace` is the trace context of the sender."""

    event: str
    position: str
    lag_us: int
    trace: str | None = None


@attrs.frozen(kw_only=True)
class TimerFired(_OfWorkflow):
    """A deadline of a workflow was handled, `lag_us` after its instant."""

    lag_us: int


@attrs.frozen(kw_only=True)
class EventsBuried(_At):
    """Events became dead letters: how many of each name, and why (the stored value of a `DeadLetterReason`).

    The workflow is the one that ended without taking them, or that cannot read one. `serial` and `detail` belong to an
    event that could not be read.
    """

    reason: str
    events: tuple[tuple[str, int], ...]
    workflow_id: str | None = None
    workflow_name: str | None = None
    status: WorkflowStatus | None = None
    position: str | None = None
    serial: int | None = None
    detail: str | None = None


# --- the engine -------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class EngineOpened(_At):
    """The engine has taken its shard of a store. `runs` counts the unfinished workflows by status."""

    shard: int
    runs: Mapping[WorkflowStatus, int]


@attrs.frozen(kw_only=True)
class EngineStopped(_At):
    """The engine has left its shard: in order, or because of an error. `is_bug` if it is not an error of the store."""

    shard: int
    error: BaseException | None = None
    is_bug: bool = False


@attrs.frozen(kw_only=True)
class Committed(_At):
    """A batch is stored. Told after the facts of that batch.

    `lag_us` is how long the first of its operations has waited to be decided. `moves` counts the changes of statuses;
    the first status is None for a new workflow. `loaded` is the number of bodies in memory, `rows` that of changes.
    """

    shard: int
    operations: int
    rows: int
    took_us: int
    lag_us: int
    loaded: int
    moves: Mapping[tuple[WorkflowStatus | None, WorkflowStatus], int]
    letters_sent: int = 0
    letters_handled: int = 0


@attrs.frozen(kw_only=True)
class CommitFailed(_At):
    """A commit failed and is tried again for `seconds_left`."""

    error: str
    seconds_left: float


@attrs.frozen(kw_only=True)
class Recovered(_At):
    """Workflows were recovered. `text` says in words what `resumed`, `parked`, `unparked` and `suspects` count."""

    text: str
    resumed: int
    parked: int
    unparked: int
    suspects: int


@attrs.frozen(kw_only=True)
class SuspectsTried(_At):
    """The process died when these workflows began activities. They are on trial, the `first` of them at once."""

    workflow_ids: tuple[str, ...]
    first: int


@attrs.frozen(kw_only=True)
class LetterSetAside(_At):
    """A letter from another shard cannot be read. It is kept, and does not block those behind it."""

    letter: str
    sender: int
    problem: str


@attrs.frozen(kw_only=True)
class Draining(_At):
    """A shutdown waits for activities. Told at its beginning and every few seconds."""

    text: str
    running: int
    workflow_ids: tuple[str, ...]
    seconds_left: float


@attrs.frozen(kw_only=True)
class BodySlow(_OfWorkflow):
    """A body took long for one step and held up all other workflows. Told once the step is over."""

    seconds: float


@attrs.frozen(kw_only=True)
class BodyStuck(_OfWorkflow):
    """A body has been in one step for `seconds`, and no other workflow can continue. Told while it is stuck."""

    seconds: float
    stack: str


@attrs.frozen(kw_only=True)
class FactsDropped(_At):
    """An observer was too slow, so `count` facts were dropped for it since the last fact of this kind."""

    observer: str
    count: int


@attrs.frozen(kw_only=True)
class Notice(_At):
    """A line for people, about something that no other fact describes. `level` is that of a log line."""

    level: int
    text: str
    fields: Mapping[str, Any] = attrs.field(factory=dict)


Fact: TypeAlias = (
    WorkflowStarted
    | BodyStepped
    | WorkflowWaiting
    | WorkflowResumed
    | WorkflowContinued
    | WorkflowReplayed
    | WorkflowEnded
    | WorkflowParked
    | WorkflowUnparked
    | UndoFailed
    | BodyDied
    | AttemptQueued
    | AttemptBegun
    | AttemptFinished
    | AttemptFailed
    | EventSent
    | EventTaken
    | TimerFired
    | EventsBuried
    | EngineOpened
    | EngineStopped
    | Committed
    | CommitFailed
    | Recovered
    | SuspectsTried
    | LetterSetAside
    | Draining
    | BodySlow
    | BodyStuck
    | FactsDropped
    | Notice
)
