"""Planted bugs: workflows whose code is missing, and what happens when it returns."""

from __future__ import annotations

from typing import Any

from durable.engine.decide import body, endings, recovery
from durable.engine.decide import cancel as cancel_decisions
from durable.engine.decide.endings import mark_finished
from durable.engine.decide.turn import Turn
from durable.engine.operations.views import RecoveryReport
from durable.engine.state.deaths import Deaths
from durable.engine.state.workflows import Workflows
from durable.errors import UnknownWorkflow
from durable.model.error_codec import pack_error
from durable.model.records import CancelCause, ParkReason, WorkflowRecord, WorkflowStatus
from tests.planted.planting import Planter, bug


@bug("I21", "I31", seed=936)
def cancel_without_code_ends_at_once(planter: Planter) -> None:
    """Cancelling a workflow that cannot run waits for its code, because it may owe undos."""
    cancel = cancel_decisions.cancel_workflow

    def cancel_workflow(
        turn: Turn, record: WorkflowRecord, reason: str | None, cause: CancelCause = CancelCause.REQUESTED
    ) -> bool:
        is_missing = not list(turn.state.registry)
        if is_missing and not record.status.is_terminal:
            mark_finished(turn, record, WorkflowStatus.CANCELLED, cancel_requested=True, cancel_reason=reason)
            return True
        return cancel(turn, record, reason, cause)

    planter.replace(cancel_decisions, cancel_workflow)


@bug("I21", seed=936)
def cancel_without_code_not_kept(planter: Planter) -> None:
    """A cancel that arrived while the code was missing is raised when the code is back."""
    cancel = Workflows.cancel_workflow

    def cancel_workflow(
        self: Workflows, record: WorkflowRecord, reason: str | None, cause: CancelCause, *, is_pending: bool
    ) -> WorkflowRecord:
        is_crashed = record.park_reason is ParkReason.CRASHED
        return cancel(self, record, reason, cause, is_pending=is_pending and is_crashed)

    planter.replace(Workflows, cancel_workflow)


@bug("I25", "I29", seed=8)
def parked_for_code_that_is_back(planter: Planter) -> None:
    """A workflow that was parked for missing code continues by itself when the code is back."""
    recover = recovery._recover

    def _recover(turn: Turn, record: WorkflowRecord) -> RecoveryReport:
        if record.status is WorkflowStatus.PARKED:
            return RecoveryReport(parked=1)
        return recover(turn, record)

    planter.replace(recovery, _recover)


@bug("I5", "I21", "I25", seed=8)
def missing_code_fails_the_workflow(planter: Planter) -> None:
    """A workflow whose code is missing is parked; it does not fail."""
    set_aside = endings.park

    def park(turn: Turn, record: WorkflowRecord, reason: ParkReason, detail: str, position: str | None = None) -> None:
        if reason is ParkReason.UNKNOWN_CODE and record.status is not WorkflowStatus.PARKED:
            error = pack_error(UnknownWorkflow(record.name, record.version))
            mark_finished(turn, record, WorkflowStatus.FAILED, error=error)
        else:
            set_aside(turn, record, reason, detail, position)

    planter.replace(endings, park)


@bug("I26", seed=376)
def missing_code_forgives_crashes(planter: Planter) -> None:
    """A workflow that crashes the process keeps its crash count through an engine run without its code."""
    set_aside = Workflows.mark_parked

    def mark_parked(self: Workflows, record: WorkflowRecord, reason: ParkReason, detail: str) -> WorkflowRecord:
        is_missing = reason is ParkReason.UNKNOWN_CODE
        before = record.with_status(record.status, crashes=0) if is_missing else record
        return set_aside(self, before, reason, detail)

    planter.replace(Workflows, mark_parked)


@bug("I6", "I22", "I29", "I25", seed=8)
def unparked_in_memory_only(planter: Planter) -> None:
    """The workflow that continues when its code is back is also stored as running."""
    rebuild = body.load

    def load(turn: Turn, record: WorkflowRecord) -> Any:
        loaded = rebuild(turn, record)
        if loaded is not None and record.park_reason is ParkReason.UNKNOWN_CODE:
            turn.state.batch.workflows_changed.pop(record.key, None)
        return loaded

    planter.replace(body, load)


@bug("I26", seed=415)
def orderly_life_without_code_forgives(planter: Planter) -> None:
    """A clean stop acquits only the bodies whose code the engine had."""

    def _note_missing_code(turn: Turn) -> None:
        pass

    planter.replace(recovery, _note_missing_code)


@bug("I26", seed=1)
def any_step_that_is_survived_forgives(planter: Planter) -> None:
    """A body that survives one step may still kill the process in another."""
    comes_out_of = Deaths.survive

    def survive(self: Deaths, key: int, where: int, what: int) -> int:
        if comes_out_of(self, key, where, what):
            self.forget(key)
        return 0

    planter.replace(Deaths, survive)
