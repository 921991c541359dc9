"""What is asked of the engine, and what it does about it, as plain values.

Nothing happens in this room. An *operation* is a state change or a question, with the type of its answer as a
parameter: `StartWorkflow` is an `Operation[WorkflowRecord]`. Operations come from callers, from activities that have
ended, from timers and from the engine itself. All of them pass through one queue and reach their decision through one
table (`coordinator.decisions`).

| file                                                            | what it holds                                      |
|-----------------------------------------------------------------|----------------------------------------------------|
| `workflows`, `events`, `pauses`, `schedules`, `repairs`         | what callers ask for, one file per noun            |
| `recovery`, `own`                                               | what the engine asks of itself                     |
| `effects`                                                       | what leaves the coordinator after the commit       |
| `messages`                                                      | what follows from a decision for another workflow  |
| `log_lines`                                                     | lines for the log; they are effects too            |
| `views`                                                         | what operators see: summaries, descriptions        |

Operations are values so that the same one can come from a caller in this process, from a socket or from another shard.
`remote.wire` has the JSON form of each, and a test fails if a new operation has none. Fields that do not travel, such
as a function object or values that were already decoded, have a default and are left out of the form.

Effects carry the round and the attempt that they were decided for. A late answer to an old attempt is recognized by
that and ignored.

Most operations are frozen. Those that are made for every step are not, and some are tuples: the comments there say what
that saves.
"""

from durable.engine.operations.base import A_co, Operation
from durable.engine.operations.effects import Effect, Ended, Follow, Parked, RunActivity, StopActivity
from durable.engine.operations.events import (
    Delivered,
    ListEvents,
    ListLetters,
    Queued,
    RemoveEvent,
    RemoveLetter,
    ReplayLetter,
    SendEvent,
)
from durable.engine.operations.own import (
    CheckWaits,
    ExpireWorkflows,
    RecordActivity,
    ResumeWorkflow,
    SweepEvents,
    WakeWorkflow,
    when_due,
)
from durable.engine.operations.pauses import CancelPause, ListPauses, ResumePause
from durable.engine.operations.recovery import BeginAttempt, ReadLetter, ReadRecovery, RecoverNext, RecoverWorkflows
from durable.engine.operations.repairs import ForkWorkflow, RepairWorkflow, RetryWorkflow
from durable.engine.operations.schedules import (
    CreateSchedule,
    DeleteSchedule,
    ListSchedules,
    PauseSchedule,
    ResumeSchedule,
    TickSchedule,
    TriggerSchedule,
)
from durable.engine.operations.workflows import (
    AwaitChange,
    AwaitEnd,
    CancelWorkflow,
    CountWorkflows,
    DescribeWorkflow,
    FindWorkflow,
    Listed,
    ListWorkflows,
    PurgeWorkflows,
    ReadHistory,
    ReadProgress,
    Sight,
    StartWorkflow,
    TerminateWorkflow,
)

__all__ = [
    "A_co",
    "AwaitChange",
    "AwaitEnd",
    "BeginAttempt",
    "CancelPause",
    "CancelWorkflow",
    "CheckWaits",
    "CountWorkflows",
    "CreateSchedule",
    "DeleteSchedule",
    "Delivered",
    "DescribeWorkflow",
    "Effect",
    "Ended",
    "ExpireWorkflows",
    "FindWorkflow",
    "Follow",
    "ForkWorkflow",
    "ListEvents",
    "ListLetters",
    "ListPauses",
    "ListSchedules",
    "ListWorkflows",
    "Listed",
    "Operation",
    "Parked",
    "PauseSchedule",
    "PurgeWorkflows",
    "Queued",
    "ReadHistory",
    "ReadLetter",
    "ReadProgress",
    "ReadRecovery",
    "RecordActivity",
    "RecoverNext",
    "RecoverWorkflows",
    "RemoveEvent",
    "RemoveLetter",
    "RepairWorkflow",
    "ReplayLetter",
    "ResumePause",
    "ResumeSchedule",
    "ResumeWorkflow",
    "RetryWorkflow",
    "RunActivity",
    "SendEvent",
    "Sight",
    "StartWorkflow",
    "StopActivity",
    "SweepEvents",
    "TerminateWorkflow",
    "TickSchedule",
    "TriggerSchedule",
    "WakeWorkflow",
    "when_due",
]
