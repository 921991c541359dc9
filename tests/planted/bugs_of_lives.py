"""Planted bugs: how workflows start, have children, continue as new rounds, are cancelled and end."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any

import attrs

from durable.engine.coordinator import decisions
from durable.engine.decide import body, children, endings, queries
from durable.engine.decide import cancel as cancel_decisions
from durable.engine.decide import start as start_decisions
from durable.engine.decide.turn import Messages, Turn
from durable.engine.operations import DescribeWorkflow, Follow, ResumeWorkflow, StartWorkflow, TerminateWorkflow
from durable.engine.operations.messages import CancelChild, LookAgain
from durable.engine.operations.views import Description
from durable.engine.state.prefetched import Prefetched
from durable.engine.state.workflows import Chronicle, Loaded
from durable.model import position
from durable.model.clock import SECOND
from durable.model.records import ParkReason, WorkflowRecord, WorkflowStatus
from durable.runner.definitions import WorkflowCall
from durable.runner.fibers import WaitCondition
from durable.runner.results import Completed, ContinueAs, Failed, SessionResult
from tests.planted.planting import Planter, bug

# --- the start ------------------------------------------------------------------------------------------------------


@bug("I2", seed=1)
def another_start_under_one_id(planter: Planter) -> None:
    """A start with an id that another workflow has is refused."""
    start = start_decisions.decide_start_workflow

    def decide_start_workflow(turn: Turn, op: StartWorkflow) -> WorkflowRecord:
        return turn.state.find(op.id) or start(turn, op)

    planter.replace(start_decisions, decide_start_workflow)


@bug("engine", "I1", seed=64)
def start_not_looked_up(planter: Planter) -> None:
    """A start that is repeated is one workflow."""

    def fetch(self: Prefetched, ids: Collection[str], keys: Collection[int]) -> None:
        self._by_id.update(dict.fromkeys(ids))

    planter.replace(Prefetched, fetch)


@bug("I19", seed=1)
def delay_of_a_start_ignored(planter: Planter) -> None:
    """A delayed start begins after its delay."""
    start = start_decisions.decide_start_workflow

    def decide_start_workflow(turn: Turn, op: StartWorkflow) -> WorkflowRecord:
        return start(turn, attrs.evolve(op, delay=0))

    planter.replace(start_decisions, decide_start_workflow)


# --- children -------------------------------------------------------------------------------------------------------


@bug("I20", "I29", seed=1)
def parent_not_woken(planter: Planter) -> None:
    """The end of a child wakes its parent."""

    def wake_parent(turn: Turn, record: WorkflowRecord) -> None:
        pass

    planter.replace(children, wake_parent)


@bug("I20", seed=1)
def absent_parent_not_woken(planter: Planter) -> None:
    """The end of a child wakes a parent that is not in memory."""
    wake = children.wake_parent

    def wake_parent(turn: Turn, record: WorkflowRecord) -> None:
        if record.parent_key in turn.state.loaded:
            wake(turn, record)

    planter.replace(children, wake_parent)


@bug("I20", "I29", seed=1)
def parent_woken_in_another_commit(planter: Planter) -> None:
    """The end of a child and the wake-up of its parent are one commit: no crash comes between them."""
    wake = children.wake_parent

    def wake_parent(turn: Turn, record: WorkflowRecord) -> None:
        aside = attrs.evolve(turn, messages=Messages())
        wake(aside, record)
        turn.effects += [Follow(ResumeWorkflow(look.key)) for look in aside.messages.take(LookAgain)]

    planter.replace(children, wake_parent)


@bug("I20", seed=1)
def second_child_on_replay(planter: Planter) -> None:
    """A rebuilt parent finds the child that it started."""
    count = itertools.count()

    def child_id_of(record: WorkflowRecord, op: Any, position: str) -> str:
        return op.child_id or f"{record.id}/{position}/{next(count)}"

    planter.replace(endings, child_id_of)


@bug("I20", "I29", seed=1)
def child_of_an_earlier_round_taken(planter: Planter) -> None:
    """Each round has its own children."""

    def place(round_number: int, position: str) -> str:
        return position

    planter.replace(position, place)


@bug("I20", seed=1)
def child_unheard_after_continuing(planter: Planter) -> None:
    """A parent in a later round learns of the end of that round's children."""
    wake = children.wake_parent

    def wake_parent(turn: Turn, record: WorkflowRecord) -> None:
        if ":" not in (record.parent_place or ""):
            wake(turn, record)

    planter.replace(children, wake_parent)


@bug("I20", "I25", seed=1)
def failed_child_succeeds(planter: Planter) -> None:
    """The parent learns how its child ended."""
    hand_over = children.hand_over_child

    def hand_over_child(turn: Turn, loaded: Loaded, wait: WaitCondition, child: WorkflowRecord) -> None:
        ended = attrs.evolve(child, status=WorkflowStatus.SUCCEEDED)
        hand_over(turn, loaded, wait, ended)

    planter.replace(children, hand_over_child)


@bug("I20", seed=8)
def child_not_cancelled_with_its_parent(planter: Planter) -> None:
    """A child is cancelled when nobody waits for it any longer."""

    def _cancel_child(turn: Turn, message: CancelChild) -> None:
        pass

    planter.replace(decisions, _cancel_child)


# --- rounds ---------------------------------------------------------------------------------------------------------


@bug("I18", seed=5)
def next_round_keeps_waits(planter: Planter) -> None:
    """The waits of a round end with the round."""
    go_on = body.advance

    def advance(turn: Turn, loaded: Loaded, result: SessionResult) -> None:
        if isinstance(result, ContinueAs):
            endings.end_workflow(turn, loaded.record, result)
        else:
            go_on(turn, loaded, result)

    planter.replace(body, advance)


@bug("engine", "I25")
def next_round_keeps_history(planter: Planter) -> None:
    """A round begins with an empty history."""

    def clear(self: Chronicle, key: int) -> None:
        pass

    planter.replace(Chronicle, clear)


@bug("I22", "I29")
def next_round_never_begins(planter: Planter) -> None:
    """A workflow that continues as a new round runs by itself."""
    begin = endings._continue

    def _continue(turn: Turn, record: WorkflowRecord, call: WorkflowCall[Any]) -> None:
        begin(turn, record, call)
        del turn.effects[-1]

    planter.replace(endings, _continue)


# --- cancelling and ending ------------------------------------------------------------------------------------------


@bug("I21", seed=16)
def cancellation_in_memory_only(planter: Planter) -> None:
    """An acknowledged cancel survives a restart."""
    cancel = cancel_decisions.cancel_workflow

    def cancel_workflow(turn: Turn, record: WorkflowRecord, reason: str | None, *cause: Any) -> bool:
        answer = cancel(turn, record, reason, *cause)
        current = turn.state.by_key(record.key)
        if answer and current is not None and not current.status.is_terminal:
            turn.state.workflows._put(current.with_status(current.status, cancel_requested=False), current)
        return answer

    planter.replace(cancel_decisions, cancel_workflow)


@bug("I5", "I21", seed=1)
def cancelled_workflow_succeeds(planter: Planter) -> None:
    """A workflow that is being cancelled ends as cancelled, whatever its body does."""
    end = endings.end_workflow

    def end_workflow(turn: Turn, record: WorkflowRecord, result: Completed | Failed | ContinueAs) -> None:
        end(turn, attrs.evolve(record, cancel_requested=False), result)

    planter.replace(endings, end_workflow)


@bug("I21", seed=1)
def cancelled_body_goes_on(planter: Planter) -> None:
    """A cancel is raised in the body, and only its cleanup still runs."""

    def feed_cancel(turn: Turn, loaded: Loaded) -> None:
        pass

    planter.replace(body, feed_cancel)


@bug("I21", "I31", seed=200)
def cancel_ends_what_is_parked(planter: Planter) -> None:
    """A parked workflow that is cancelled still runs its undos."""
    cancel = cancel_decisions.cancel_workflow

    def cancel_workflow(turn: Turn, record: WorkflowRecord, reason: str | None, *cause: Any) -> bool:
        if record.status is WorkflowStatus.PARKED:
            endings.mark_finished(turn, record, WorkflowStatus.CANCELLED, cancel_requested=True)
            return True
        return cancel(turn, record, reason, *cause)

    planter.replace(cancel_decisions, cancel_workflow)


@bug("I21")
def second_cancel_is_ignored(planter: Planter) -> None:
    """Every accepted cancel is raised in the body, not only the first."""
    cancel = cancel_decisions.cancel_workflow

    def cancel_workflow(turn: Turn, record: WorkflowRecord, reason: str | None, *cause: Any) -> bool:
        return True if record.cancel_requested else cancel(turn, record, reason, *cause)

    planter.replace(cancel_decisions, cancel_workflow)


@bug("I25")
def describe_parks(planter: Planter) -> None:
    """Describing a workflow changes nothing."""
    describe = queries.decide_describe_workflow

    def decide_describe_workflow(turn: Turn, op: DescribeWorkflow) -> Description:
        record = turn.state.record(op.id)
        if record.key not in turn.state.loaded and record.status is WorkflowStatus.SUSPENDED:
            endings.park(turn, record, ParkReason.UNKNOWN_CODE, "not in memory")
        return describe(turn, op)

    planter.replace(queries, decide_describe_workflow)


@bug("I21", seed=10)
def cancel_answered_and_not_done(planter: Planter) -> None:
    """A workflow whose termination was acknowledged has ended."""

    def decide_terminate_workflow(turn: Turn, op: TerminateWorkflow) -> bool:
        return True

    planter.replace(cancel_decisions, decide_terminate_workflow)


@bug("I5", seed=13)
def end_changed_again(planter: Planter) -> None:
    """An ended workflow stays as it ended: even terminating it changes nothing."""
    terminate = cancel_decisions.decide_terminate_workflow

    def decide_terminate_workflow(turn: Turn, op: TerminateWorkflow) -> bool:
        record = turn.state.record(op.id)
        if record.status is not WorkflowStatus.SUCCEEDED:
            return terminate(turn, op)
        ended = attrs.evolve(record, status=WorkflowStatus.CANCELLED, cancel_requested=True, result=None)
        turn.state.batch.workflows_changed[record.key] = ended
        return True

    planter.replace(cancel_decisions, decide_terminate_workflow)


@bug("I5")
def result_replaced(planter: Planter) -> None:
    """The result of a workflow is what its body returned."""
    end = endings.mark_finished

    def mark_finished(turn: Turn, record: WorkflowRecord, status: WorkflowStatus, **ending: Any) -> None:
        end(turn, record, status, **(ending | {"result": "[]"} if "result" in ending else ending))

    planter.replace(endings, mark_finished)


@bug("I7")
def timer_outlives_its_workflow(planter: Planter) -> None:
    """An ended workflow has no timer."""
    change = WorkflowRecord.with_status

    def with_status(self: WorkflowRecord, status: WorkflowStatus, **changes: Any) -> WorkflowRecord:
        if status.is_terminal:
            changes["wake_at"] = (self.wake_at or self.created_at) + SECOND
        return change(self, status, **changes)

    planter.replace(WorkflowRecord, with_status)
