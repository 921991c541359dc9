"""Requests to the engine, and what follows from them, as plain values.

Nothing happens in this room. There are three kinds of values, one for each stage of a decision:

- An *operation* goes into the coordinator: a state change or a question. The type of its answer is a parameter, so
  `StartWorkflow` is an `Operation[WorkflowRecord]`.
- A *message* stays inside: what a decision about one workflow means for a wait or for another workflow.
- An *effect* comes out after the commit: an activity to run or stop, a line for the log, an answer to a waiting caller.

Follow one event:

1. `engine.send_event(...)` makes a `SendEvent`, and the coordinator takes it from its queue.
2. The decision gives the payload to the workflow that waits for it. Its body asks for an activity next, so the
   decision emits a `RunActivity` as an effect.
3. If the body sends an event itself, the decision sends an `EventSent` message. It is handled before the next operation
   and becomes part of the same commit, or travels as a letter if the target lives in another shard.
4. After the commit the caller receives `Delivered`, and the activity pool the `RunActivity`.
5. The attempt ends. The pool submits a `RecordActivity`, which is an operation like any other.

Operations come from callers, from activities that have ended, from timers and from the engine itself. All of them pass
through one queue, and reach their decision through one table (`coordinator.decisions`).

| you want to know | file |
|---|---|
| what callers ask for, one file per noun | `workflows`, `events`, `pauses`, `schedules`, `repairs` |
| what the engine asks of itself, and what a start asks | `own` |
| what leaves the coordinator after a commit | `effects`; the lines for the log are in `log_lines` |
| what follows from a decision for another workflow, and in which order | `messages` |
| how messages travel between shards | `letters`; how any value becomes JSON and comes back, `forms` |
| what operators see: summaries, descriptions, the result of a recovery | `views` |

Operations are values so that the same one can come from a caller in this process, from a socket or from another shard.
`remote.wire` has the JSON form of each, and a test fails if a new operation has none. Fields that do not travel, such
as a function object or values that were already decoded, have a default and are left out of the form.

Effects carry the round and the attempt that they were decided for. That is how a late answer to an old attempt is
recognized and ignored.

What may be touched: nothing. The values know records and definitions, but neither the state nor the store, the clock or
the event loop. Most of them are frozen. Those that are made for every step are not, and some are tuples: the comments
there say what that saves.
"""

from durable.engine.operations.base import A_co, OfBody, OfSchedule, OfWorkflow, Operation
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
    BeginAttempt,
    CheckWaits,
    ExpireWorkflows,
    ReadLetter,
    ReadRecovery,
    RecordActivity,
    RecoverNext,
    RecoverWorkflows,
    ResumeWorkflow,
    SweepEvents,
    WakeWorkflow,
    when_due,
)
from durable.engine.operations.pauses import CancelPause, ListPauses, ResumePause
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
    "OfBody",
    "OfSchedule",
    "OfWorkflow",
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
