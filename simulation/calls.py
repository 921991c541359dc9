"""What the acts of clients ask of an engine: each as the operation that the façade of the engine would make of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from durable.engine.operations import (
    AwaitEnd,
    CancelWorkflow,
    CreateSchedule,
    DeleteSchedule,
    DescribeWorkflow,
    FindWorkflow,
    Operation,
    PauseSchedule,
    ReadHistory,
    ResumeSchedule,
    RetryWorkflow,
    SendEvent,
    StartWorkflow,
    TerminateWorkflow,
    TriggerSchedule,
)
from durable.model.schedule import CatchUp, Job, Overlap, Plan
from durable.runner.events import event_key
from simulation.agenda import MILLISECOND
from simulation.kinds import event_of, is_by_request, payload_of
from simulation.process import CODEC
from simulation.rows import simulated
from simulation.scenario import Act, Verb


def arguments_of(act: Act) -> str:
    """The arguments of the workflow that an act starts, as they are stored."""
    return simulated.coder(CODEC).pack_arguments((act.program, []), {})


def job_of(act: Act) -> Job:
    """The job of the schedule that an act creates."""
    return Job(
        plan=Plan.of(act.cron or None, act.every or None),
        workflow=simulated.name,
        input=arguments_of(act),
        overlap=Overlap[act.overlap],
        catch_up=CatchUp[act.catch_up],
    )


def operation_of(act: Act) -> Operation[Any]:
    """The operation for an act. Acts that need an answer first, such as `REPLAY`, are not here: see `clients`."""
    id = act.id or ""
    match act.verb:
        case Verb.START:
            text, delay = arguments_of(act), act.delay * MILLISECOND
            return StartWorkflow(id=id, name=simulated.name, input=text, definition=simulated, delay=delay)
        case Verb.SEND:
            event = event_of(act.event)
            return SendEvent(
                name=act.event,
                event_key=event_key(act.key),
                payload=payload_of(act.event_id),
                to=act.id,
                # A child may start at any time or never. Other targets are known to be started.
                allow_unstarted=act.is_early,
                consume=event.consume_on_read,
                expire_after=event.expire_after_us,
                event_id=None if is_by_request(act.event_id) else act.event_id,
            )
        case Verb.SCHEDULE:
            return CreateSchedule(name=id, job=job_of(act), definition=simulated)
        case Verb.TRIGGER_SCHEDULE:
            return TriggerSchedule(id, act.run)
        case _:
            return _BY_ID[act.verb](id)


_BY_ID: dict[Verb, Callable[[str], Operation[Any]]] = {
    Verb.CANCEL: CancelWorkflow,
    Verb.TERMINATE: TerminateWorkflow,
    Verb.RETRY: RetryWorkflow,
    Verb.AWAIT: AwaitEnd,
    Verb.FIND: FindWorkflow,
    Verb.DESCRIBE: DescribeWorkflow,
    Verb.HISTORY: ReadHistory,
    Verb.PAUSE_SCHEDULE: PauseSchedule,
    Verb.RESUME_SCHEDULE: ResumeSchedule,
    Verb.DELETE_SCHEDULE: DeleteSchedule,
}
