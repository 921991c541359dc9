"""What the engine asks of a store: the protocol, the batch and the questions.

This room defines values and interfaces only; it contains no store. The engine imports it instead of a concrete store,
so the two can change independently.

In what order it is used: the engine calls `open` with the id of its incarnation and gets `Opened`: the highest serial,
whether the last engine stopped in order, and the mark. Decisions then write to a `Batch`, one per commit. While a batch
is open, the engine reads through it as an overlay: first the batch, then the store. `commit` applies the batch. At the
end the last batch says `clean_stop`, and `close` lets go of the store.

A question is a value (`Query[R]`), and its type parameter says what its rows are. So a new question is a class here, an
entry in the table of each store and a case in the conformance suite; the protocol does not grow.

Rules for a batch:

- It holds net changes: nothing in it is both put and dropped.
- A store applies the drops first, then the puts. `history_trimmed` comes last, because it may name entries that the
  same batch added.
- Its number follows that of the last commit of this incarnation. So a commit with an unknown outcome can be repeated
  safely: either `last_batch` shows its number, or it did not happen.

Nothing here knows who made a decision or how it is stored.

| file       | holds                                                            |
|------------|------------------------------------------------------------------|
| `protocol` | `Backend`, what only stores in files have, `Opened` and the mark |
| `batch`    | `Batch` and its history entries                                  |
| `queries`  | the questions, with the types and the order of their rows        |
"""

from durable.backends.base.batch import Batch, Entries, Letter, LetterId, StoredLetter
from durable.backends.base.protocol import (
    MARK_CELLS,
    Backend,
    FileStore,
    Held,
    HeldStore,
    Mark,
    Opened,
    Reads,
    SharedStore,
)
from durable.backends.base.queries import (
    Answers,
    Attached,
    AttachedTo,
    Background,
    Backgrounds,
    ChildIds,
    Children,
    CreatedMark,
    EventsFor,
    HistoryLength,
    Inbox,
    KeptRequests,
    Letters,
    Mailbox,
    OpenPauses,
    PendingCount,
    PendingEvents,
    ProgressOf,
    Query,
    R,
    Schedules,
    Sent,
    StaleEvents,
    Suspects,
    Taken,
    TheseWorkflows,
    TiedShards,
    Timers,
    Undelivered,
    WaitsFor,
    WaitsOf,
    Workflows,
)

__all__ = [
    "MARK_CELLS",
    "Answers",
    "Attached",
    "AttachedTo",
    "Backend",
    "Background",
    "Backgrounds",
    "Batch",
    "ChildIds",
    "Children",
    "CreatedMark",
    "Entries",
    "EventsFor",
    "FileStore",
    "Held",
    "HeldStore",
    "HistoryLength",
    "Inbox",
    "KeptRequests",
    "Letter",
    "LetterId",
    "Letters",
    "Mailbox",
    "Mark",
    "OpenPauses",
    "Opened",
    "PendingCount",
    "PendingEvents",
    "ProgressOf",
    "Query",
    "R",
    "Reads",
    "Schedules",
    "Sent",
    "SharedStore",
    "StaleEvents",
    "StoredLetter",
    "Suspects",
    "Taken",
    "TheseWorkflows",
    "TiedShards",
    "Timers",
    "Undelivered",
    "WaitsFor",
    "WaitsOf",
    "Workflows",
]
