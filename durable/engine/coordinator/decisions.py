"""The tables: from an operation to its decision, from a message to its handler, from a kind of wait to its functions.

`decide_in` is the only way into them. It decides one operation, then handles messages until none is left (`follow_up`),
so that all consequences of an operation are in its batch. A new operation or message is one row here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from durable.engine import operations as ops
from durable.engine.decide import (
    activities,
    body,
    cancel,
    children,
    endings,
    events,
    kept_events,
    letters,
    pauses,
    queries,
    recovery,
    requests,
    schedules,
    sending,
    start,
    timers,
)
from durable.engine.decide.activities import begin_attempt, dispatch, stop_activity
from durable.engine.decide.body import cancel_awaited
from durable.engine.decide.timers import decide_check_waits, put_off
from durable.engine.decide.turn import Turn, WaitKind, check_home
from durable.engine.decide.waits import forget_guest, forget_wait, hear, register_event
from durable.engine.operations import (
    CheckWaits,
    ForkWorkflow,
    ReadLetter,
    ReadRecovery,
    RecoverNext,
    RemoveEvent,
    RemoveLetter,
    RepairWorkflow,
    ReplayLetter,
    RetryWorkflow,
    own,
)
from durable.engine.operations.messages import (
    AtWait,
    AwaitChild,
    CancelAnswered,
    CancelChild,
    CancelSpawned,
    ChildEnded,
    ChildRefused,
    ChildStarted,
    EventMoved,
    EventOffered,
    EventReturned,
    EventSent,
    EventSubmitted,
    FireTimers,
    LetterRefused,
    LetterReplayed,
    LookAgain,
    Message,
    ParentEnded,
    RetryChild,
    SendAnswered,
    StartChild,
    WaitRegistered,
    WaitWithdrawn,
    WorkflowEnded,
)
from durable.engine.operations.requests import DecideKept
from durable.engine.repair import fork, repair, retry
from durable.engine.state.workflows import Loaded
from durable.model.records import EntryKind
from durable.runner.fibers import WaitCondition

_DECISIONS: dict[type[ops.Operation[Any]], Callable[[Turn, Any], Any]] = {
    ops.StartWorkflow: start.decide_start_workflow,
    ops.RecordActivity: activities.decide_record_activity,
    ops.BeginAttempt: activities.decide_begin_attempt,
    ops.WakeWorkflow: timers.decide_wake_workflow,
    ops.ResumeWorkflow: timers.decide_resume_workflow,
    ops.CancelWorkflow: cancel.decide_cancel_workflow,
    ops.TerminateWorkflow: cancel.decide_terminate_workflow,
    ops.SendEvent: events.decide_send_event,
    CheckWaits: decide_check_waits,
    RemoveEvent: kept_events.decide_remove_event,
    ReplayLetter: kept_events.decide_replay_letter,
    RemoveLetter: kept_events.decide_remove_letter,
    ops.SweepEvents: kept_events.decide_sweep_events,
    ops.ResumePause: pauses.decide_resume_pause,
    ops.CancelPause: pauses.decide_cancel_pause,
    ops.RecoverWorkflows: recovery.decide_recover_workflows,
    RecoverNext: recovery.decide_recover_next,
    ReadRecovery: recovery.decide_read_recovery,
    ops.FindWorkflow: queries.decide_find_workflow,
    ops.AwaitEnd: queries.decide_await_end,
    ops.ReadHistory: queries.decide_read_history,
    ops.DescribeWorkflow: queries.decide_describe_workflow,
    ops.PurgeWorkflows: endings.decide_purge_workflows,
    own.ExpireWorkflows: endings.decide_expire_workflows,
    RetryWorkflow: retry.decide_retry_workflow,
    ForkWorkflow: fork.decide_fork_workflow,
    RepairWorkflow: repair.decide_repair_workflow,
    ops.ReadProgress: queries.decide_read_progress,
    ops.AwaitChange: queries.decide_await_change,
    ops.CreateSchedule: schedules.decide_create_schedule,
    ops.TickSchedule: schedules.decide_tick_schedule,
    ops.PauseSchedule: schedules.decide_pause_schedule,
    ops.ResumeSchedule: schedules.decide_resume_schedule,
    ops.TriggerSchedule: schedules.decide_trigger_schedule,
    ops.DeleteSchedule: schedules.decide_delete_schedule,
    ReadLetter: letters.decide_read_letter,
    DecideKept: requests.decide_kept,
}


def decide_in(turn: Turn, op: ops.Operation[Any]) -> Any:
    """Decide one operation of a batch and everything that follows; returns the reply.

    Raises `WrongShard` for an operation that another shard must decide, and any refusal of the decision.
    """
    if turn.state.shard.count > 1:
        check_home(turn.state.shard, op)
    reply = _DECISIONS[type(op)](turn, op)
    if turn.messages.waiting:
        follow_up(turn)
    return reply


def follow_up(turn: Turn) -> None:
    """Handle the messages of a decision. After `max_steps_per_decision` checks the rest waits for the next batch."""
    messages, steps_left = turn.messages, turn.state.config.max_steps_per_decision
    while messages.waiting:
        if messages.has(LookAgain):
            steps_left -= 1
            if steps_left < 0:
                put_off(turn)
                continue
        message = messages.next()
        _HANDLERS[type(message)](turn, message)
    state = turn.state
    if state.started:
        # Only steps of workflows that were put off continue in a later decision.
        state.started = {key: count for key, count in state.started.items() if key in state.put_off}


def _look_again(turn: Turn, message: LookAgain) -> None:
    """Check whether a wait has its answer, unless an earlier message has ended the workflow or the wait."""
    loaded, wait = _wait_at(turn, message)
    if loaded is not None and wait is not None and (look := WAIT_KINDS[wait.kind].look) is not None:
        look(turn, loaded, wait)


def _event_sent(turn: Turn, message: EventSent) -> None:
    loaded, wait = _wait_at(turn, message)
    if loaded is not None and wait is not None and wait.kind is EntryKind.SEND:
        sending.send_from_body(turn, loaded, wait)


def _cancel_spawned(turn: Turn, message: CancelSpawned) -> None:
    loaded, wait = _wait_at(turn, message)
    if loaded is not None and wait is not None and wait.kind is EntryKind.CANCEL_CHILD:
        children.cancel_spawned(turn, loaded, wait, message=message)


def _wait_at(turn: Turn, message: AtWait) -> tuple[Loaded | None, WaitCondition | None]:
    """The live body that a message is about, and its wait; None for what has ended since."""
    loaded = turn.state.touch(message.key) or timers.active_body(turn, message.key)
    return loaded, None if loaded is None else loaded.session.waits.get(message.position)


def _cancel_child(turn: Turn, message: CancelChild) -> None:
    if message.wait is None:
        letters.cancel_unawaited(turn, message)
    else:
        letters.cancel_for(turn, message)


# The kinds of waits, one row each: what to do when a wait opens, is checked, is withdrawn, or is due. The runner has
# the other half of each row (`durable.runner.kinds`).
WAIT_KINDS: dict[EntryKind, WaitKind] = {
    EntryKind.ACTIVITY: WaitKind(opened=dispatch, withdrawn=stop_activity, due=begin_attempt),
    EntryKind.TIMER: WaitKind(due=timers.fire_timer),
    EntryKind.EVENT: WaitKind(opened=register_event, look=kept_events.check_events, withdrawn=forget_wait),
    EntryKind.PAUSE: WaitKind(look=pauses.check_pause, withdrawn=forget_wait, due=pauses.expire_pause),
    EntryKind.CHILD: WaitKind(look=children.check_child, withdrawn=cancel_awaited),
    EntryKind.SPAWN: WaitKind(look=children.check_spawn, withdrawn=children.give_up_spawn),
    EntryKind.RESULT: WaitKind(look=children.check_result, withdrawn=forget_wait),
    EntryKind.CANCEL_CHILD: WaitKind(look=children.check_cancel_child, withdrawn=forget_wait),
    EntryKind.SEND: WaitKind(look=sending.check_send, withdrawn=forget_wait),
    EntryKind.LOOP: WaitKind(look=body.check_state, is_passing=True),
}
_HANDLERS: dict[type[Message], Callable[[Turn, Any], object]] = {
    WorkflowEnded: children.workflow_ended,
    LookAgain: _look_again,
    EventSent: _event_sent,
    CancelSpawned: _cancel_spawned,
    FireTimers: lambda turn, message: timers.fire_due(turn, message.key),
    CancelChild: _cancel_child,
    EventMoved: sending.reoffer,
    # Only from other shards.
    StartChild: letters.start_child,
    AwaitChild: letters.await_child,
    RetryChild: retry.retry_child,
    ParentEnded: letters.end_with_parent,
    ChildStarted: hear,
    ChildRefused: hear,
    ChildEnded: hear,
    CancelAnswered: hear,
    EventSubmitted: sending.send_for,
    SendAnswered: hear,
    WaitRegistered: letters.register_guest,
    EventOffered: letters.take_offer,
    EventReturned: letters.take_back,
    LetterReplayed: kept_events.replay_for,
    LetterRefused: kept_events.keep_refused,
    WaitWithdrawn: forget_guest,
}
