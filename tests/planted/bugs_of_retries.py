"""Planted bugs: retries by operators, and what they must not touch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from durable.engine.decide.body import last_seq
from durable.engine.decide.turn import Turn
from durable.engine.operations import RetryWorkflow
from durable.engine.repair import retry
from durable.errors import DurableError
from durable.model.records import HistoryEntry, WorkflowRecord, WorkflowStatus
from durable.runner.past import NOTES, Past, Retried
from tests.planted.planting import Planter, bug


@bug("I35", seed=4)
def retry_keeps_the_failure(planter: Planter) -> None:
    """The step whose error ended the workflow runs again."""
    note = retry._retried

    def _retried(record: WorkflowRecord, learnt: Sequence[HistoryEntry], seq: int, now: int) -> HistoryEntry:
        whole = note(record, learnt, seq, now)
        return whole._replace(outcome=Retried(Retried.of(whole).entries[-1:], 0).text())

    planter.replace(retry, _retried)


@bug("I35", seed=67)
def retry_voids_a_step_that_was_done(planter: Planter) -> None:
    """The steps before the failure stay recorded and do not run again."""
    note = retry._retried

    def _retried(record: WorkflowRecord, learnt: Sequence[HistoryEntry], seq: int, now: int) -> HistoryEntry:
        whole = note(record, learnt, seq, now)
        void = {entry.seq for entry in learnt[-2:]} | set(Retried.of(whole).entries)
        return whole._replace(outcome=Retried(sorted(void), 0).text())

    planter.replace(retry, _retried)


@bug("I35", seed=3)
def retry_after_undos(planter: Planter) -> None:
    """A workflow that has undone its steps cannot be retried, because their results are gone."""

    def _plan(turn: Turn, record: WorkflowRecord) -> Any:
        history = turn.state.chronicle.of(record.key)
        learnt = [entry for entry in Past(history).entries if entry.kind not in NOTES]
        note = retry._retried(record, learnt, last_seq(history) + 1, turn.now)
        return retry._Plan(record, note)

    planter.replace(retry, _plan)


@bug("I5")
def retry_of_what_was_cancelled(planter: Planter) -> None:
    """Only a failed or a parked workflow can be retried."""
    decide = retry.decide_retry_workflow

    def decide_retry_workflow(turn: Turn, op: RetryWorkflow) -> DurableError | None:
        record = turn.state.record(op.id)
        if record.status is WorkflowStatus.CANCELLED:
            turn.state.workflows.retry_workflow(record)
            return None
        return decide(turn, op)

    planter.replace(retry, decide_retry_workflow)


@bug("I5", "I1", "I6", seed=4)
def retry_forgotten_by_the_store(planter: Planter) -> None:
    """An accepted retry is stored together with its note."""
    carry_out = retry._carry_out

    def _carry_out(turn: Turn, plan: Any) -> None:
        carry_out(turn, plan)
        for key, entry in turn.state.batch.history:
            if key == plan.record.key and entry.seq == plan.note.seq:
                turn.state.batch.workflows_changed.pop(key, None)
                break

    planter.replace(retry, _carry_out)
