"""The stored parts of a workflow, as plain values.

A record never changes: a decision makes a new one, and `with_status` checks the transition table. Instants are integer
microseconds (`durable.model.clock`). Payloads, results and errors are JSON text that only the codec reads.

One ascending integer, the *serial*, numbers workflows (their `key`), waits and events alike. "Sent after the workflow
was created" and "has waited longest" are comparisons of serials, so they do not depend on a clock.
"""

from __future__ import annotations

import enum
import json
from datetime import datetime
from typing import Any, NamedTuple

import attrs

from durable.errors import InvariantViolated
from durable.model.clock import to_datetime
from durable.model.dead_letters import decoded
from durable.model.position import place
from durable.model.registrations import Guest as Guest
from durable.model.registrations import Registration as Registration
from durable.model.statuses import ENDS as _ENDS
from durable.model.statuses import WorkflowStatus as WorkflowStatus

# Which status may follow which. An ended workflow stays ended, unless an operator retries it. A retried parent restarts
# the children that were cancelled only because it had ended; hence CANCELLED to RUNNING.
TRANSITIONS: dict[WorkflowStatus, frozenset[WorkflowStatus]] = {
    WorkflowStatus.RUNNING: _ENDS | {WorkflowStatus.SUSPENDED, WorkflowStatus.PARKED},
    WorkflowStatus.SUSPENDED: _ENDS | {WorkflowStatus.RUNNING, WorkflowStatus.PARKED},
    WorkflowStatus.PARKED: frozenset({WorkflowStatus.RUNNING, WorkflowStatus.SUSPENDED, WorkflowStatus.CANCELLED}),
    WorkflowStatus.FAILED: frozenset({WorkflowStatus.RUNNING}),
    WorkflowStatus.CANCELLED: frozenset({WorkflowStatus.RUNNING}),
}


class ParkReason(enum.Enum):
    """Why a workflow is parked.

    DIVERGED: its code asks for something other than its history. UNKNOWN_CODE: no such workflow is registered.
    UNREADABLE: stored data cannot be read with this code. CRASHED: its body ended the process too often.
    """

    DIVERGED = "diverged"
    UNKNOWN_CODE = "unknown code"
    UNREADABLE = "unreadable"
    CRASHED = "crashed"


class CancelCause(enum.Enum):
    """Why a workflow is cancelled. Stored, so that no code has to compare the text of a reason."""

    REQUESTED = "requested"
    PARENT_ENDED = "parent_ended"
    NOT_AWAITED = "not_awaited"


class OnParentClose(enum.Enum):
    """What happens to a spawned child when its parent ends, in whatever way."""

    KEEP = "keep"
    CANCEL = "cancel"


# How positions name the branches of `race` and `first_success`: all by number, or those with a key by key. A run keeps
# the form that it started with, because ids of children, pauses and idempotency keys contain positions.
BY_NUMBER, BY_KEY = 0, 1


# Without slots, because a changed copy is then one copied dict: ten times cheaper than `attrs.evolve`.
@attrs.frozen(kw_only=True, slots=False)
class WorkflowRecord:
    """One workflow: its identity, its status and its end."""

    key: int
    id: str
    name: str
    version: int = 1
    status: WorkflowStatus
    input: str
    # Digest of the name and arguments of the first round, so that a repeated start is recognised after a `continue_as`.
    start_digest: str = ""
    created_at: int
    # When the body starts: `created_at` plus the delay of the start. The first value of `now()` in the body.
    start_at: int
    # The earliest open deadline (a timer, a retry, a delayed start), or None.
    wake_at: int | None = None
    finished_at: int | None = None
    result: str | None = None
    error: str | None = None
    parent_key: int | None = None
    # The place in the parent at which it was started (`position.place`).
    parent_place: str | None = None
    # None unless it was spawned. A child that its parent awaits is always cancelled with the parent.
    on_parent_close: OnParentClose | None = None
    # How many ancestors it has.
    depth: int = 0
    # How often it has called `continue_as`. Positions start from 0 again in each round.
    round: int = 0
    tags: tuple[str, ...] = ()
    cancel_requested: bool = False
    # Requested while the code was missing: `Cancelled` is raised as soon as the body can be rebuilt.
    cancel_pending: bool = False
    cancel_reason: str | None = None
    # The cause of the last request; None without a request.
    cancel_cause: CancelCause | None = None
    # Crashes of the process that are blamed on it, since it last made progress.
    crashes: int = 0
    park_reason: ParkReason | None = None
    park_detail: str | None = None
    # The form that older stores have for `TakenBroadcast`: name, key, serial. Converted when it takes a broadcast.
    cursors: tuple[tuple[str, str, int], ...] = ()
    # Not stored: the row cannot be read as a whole, and this record holds the readable part.
    is_damaged: bool = False
    # Not stored: for a damaged row of an ended workflow, the record with its end, if that is readable.
    mended: WorkflowRecord | None = None
    # `BY_NUMBER` in rows of older versions.
    position_format: int = BY_NUMBER
    # The trace context of the call that started it, or of its parent: what `Carrier.capture` returned.
    trace: str | None = None

    def with_status(self, status: WorkflowStatus, **changes: Any) -> WorkflowRecord:
        """A copy of this record with another status. Raises `InvariantViolated` if the table has no such transition.

        The same status is always allowed. `changes` are other fields to set in the copy.
        """
        if status is not self.status and status not in TRANSITIONS.get(self.status, ()):
            raise InvariantViolated(f"workflow {self.id!r} cannot go from {self.status.value} to {status.value}")
        changed = object.__new__(WorkflowRecord)
        changed.__dict__.update(self.__dict__, status=status, **changes)
        return changed


class EntryKind(enum.Enum):
    """What a history entry records. The values are stored."""

    ACTIVITY = "activity"
    TIMER = "timer"
    EVENT = "event"
    CHILD = "child"
    PAUSE = "pause"
    CANCEL = "cancel"
    # The body returned or raised something that cannot be stored, while undos were pending: it fails, and they run.
    REFUSAL = "refusal"
    # A spawned child was started; it ended; it was asked to stop.
    SPAWN = "spawn"
    RESULT = "result"
    CANCEL_CHILD = "cancel child"
    # The workflow sent an event.
    SEND = "send"
    # The state at the start of a round of a loop.
    LOOP = "loop"
    # Looked up on a replay, and not fed to a wait: answers of `patched`, and the actions of operators.
    PATCH = "patch"
    REPAIRED = "repaired"
    RETRIED = "retried"
    FORKED = "forked"
    # Not stored: the wait of a body at a step marked as `removed`.
    REMOVED = "removed"

    # As for `WorkflowStatus`: a replay looks up the kind of every entry.
    __hash__ = object.__hash__


class EntryStatus(enum.Enum):
    """The outcome of an entry. RETRY is a failed attempt that another one follows, so the body does not see it."""

    OK = "ok"
    ERROR = "error"
    RETRY = "retry"


class HistoryEntry(NamedTuple):
    """One outcome that a workflow received. `seq` counts them, in the order in which the body received them.

    `outcome` is JSON text: a value, or an error if `status` is not OK. A tuple, because every step makes one.
    """

    seq: int
    position: str
    kind: EntryKind
    name: str
    status: EntryStatus
    outcome: str
    at_us: int
    retry_at_us: int | None = None

    @property
    def at(self) -> datetime:
        """When it was recorded."""
        return to_datetime(self.at_us)

    @property
    def value(self) -> Any:
        """The outcome as plain JSON data: a result, a payload, or an error with its `type` and `message`."""
        return decoded(self.outcome)

    @property
    def retry_at(self) -> datetime | None:
        """When the next attempt was due, for a failed attempt; None for any other entry."""
        return None if self.retry_at_us is None else to_datetime(self.retry_at_us)


@attrs.frozen(kw_only=True)
class FailedUndo:
    """An undo whose last attempt failed: the position and name of the step that stays done, and the error."""

    position: str
    step: str
    undo: str
    error_type: str
    message: str

    def __str__(self) -> str:
        return f"undo {self.undo} of {self.step} at {self.position} failed: {self.error_type}: {self.message}"


@attrs.frozen
class WorkflowHistory:
    """A workflow with its history: all that is needed to rebuild its body in another process."""

    record: WorkflowRecord
    entries: tuple[HistoryEntry, ...] = ()
    # Why some of the entries cannot be read; None if all can.
    damage: str | None = None


class DeliveryMode(enum.Enum):
    """Which events a wait may take: all, those sent after the workflow was created, or after the wait was opened."""

    ALL = "all"
    AFTER_CREATE = "after create"
    AFTER_WAIT = "after wait"


class DeadLetterPolicy(enum.Enum):
    """What happens to the events in the mailbox of a workflow when it ends."""

    MOVE_TO_DEAD_LETTER = "move to dead letter"
    MOVE_TO_BROADCAST = "move to broadcast"
    DISCARD = "discard"


@attrs.frozen
class Question:
    """The question of a pause: its prompt as JSON text, the type of the answer in words, and when it expires."""

    prompt: str
    expects: str
    expires_at: int | None = None


@attrs.frozen(kw_only=True)
class EventWait:
    """A workflow waits at a position for an event. An empty key means an event that was sent without a key.

    Three other waits are stored as event waits, with the empty name, which no event can have. A wait for an answer has
    a question and no key. A wait for the end of a spawned child has the key of the child as its event key. A question
    to another shard says in `asks` what it asks for.

    `serial` orders waits: the oldest matching wait takes an event. `since` is the instant at which it was opened.
    """

    workflow_key: int
    position: str
    name: str
    event_key: str = ""
    mode: DeliveryMode = DeliveryMode.ALL
    serial: int
    since: int
    question: Question | None = None
    # The rest exists only in stores with several shards. What was asked of another shard: the kind of wait, and the
    # answer, if it came while the workflow was parked.
    asks: EntryKind | None = None
    answer: tuple[EntryStatus, str] | None = None
    # For an event whose home is another shard: the wait is not registered there, or not any more. How it will be, when
    # the body is looked at next: it is new, or its workflow was parked when an event was offered.
    unregistered: Registration | None = None
    # The workflow lives in another shard, and has told this one that it waits.
    guest: Guest | None = None

    @property
    def kind(self) -> EntryKind:
        """The kind of entry that ends this wait: an event, an answer, a child's end, or what another shard is asked."""
        if self.asks is not None:
            return self.asks
        if self.question is not None:
            return EntryKind.PAUSE
        return EntryKind.EVENT if self.name else EntryKind.RESULT


@attrs.frozen(kw_only=True)
class PendingEvent:
    """An event that no workflow has taken yet.

    `target` is the key of the workflow whose mailbox holds it; None for an untargeted event. `unstarted` is the id of a
    target that does not exist yet. A broadcast (`consume=False`) stays until it expires; `taken` says that at least one
    workflow has taken it, so that it no longer counts as pending.
    """

    serial: int
    name: str
    event_key: str = ""
    target: int | None = None
    unstarted: str | None = None
    payload: str
    sent_at: int
    expires_at: int | None = None
    consume: bool = True
    # Retention counts from here: the instant when the event was sent, or when it became untargeted.
    since: int = attrs.field(default=attrs.Factory(lambda event: event.sent_at, takes_self=True))
    taken: bool = False
    # In a store with several shards: the mark of the commit that has stored it first, filled in by the store.
    mark: int | None = attrs.field(default=None, eq=False)
    # The trace context of its sender.
    trace: str | None = None


@attrs.frozen(kw_only=True)
class TakenBroadcast:
    """The last broadcast with a name and key that a workflow has taken, so that it takes none twice."""

    workflow_key: int
    name: str
    event_key: str
    serial: int


@attrs.frozen(kw_only=True)
class OpenPause:
    """A question that a workflow has asked and that is not answered yet.

    `number` orders the list of pauses and is the cursor of its pages. `name` and `status` are those of the workflow,
    `prompt` is plain JSON data, and `expects` is the type of the answer in words.
    """

    number: int
    workflow_id: str
    name: str
    status: WorkflowStatus
    pause_id: str
    prompt: Any
    expects: str
    since_us: int
    expires_at_us: int | None

    @classmethod
    def of(cls, wait: EventWait, *, id: str, name: str, round: int, status: WorkflowStatus) -> OpenPause:
        """The pause of a stored wait and its workflow. Raises `ValueError` if the prompt is not JSON."""
        question = wait.question or Question("null", "")
        return cls(
            number=wait.serial,
            workflow_id=id,
            name=name,
            status=status,
            pause_id=place(round, wait.position),
            prompt=json.loads(question.prompt),
            expects=question.expects,
            since_us=wait.since,
            expires_at_us=question.expires_at,
        )

    @property
    def since(self) -> datetime:
        """When it was asked."""
        return to_datetime(self.since_us)

    @property
    def expires_at(self) -> datetime | None:
        """When it expires; None if it does not."""
        return None if self.expires_at_us is None else to_datetime(self.expires_at_us)


@attrs.frozen(kw_only=True)
class SentEvent:
    """The event id of a sender, so that an event that is sent twice is accepted once.

    `digest` covers the payload, name, key and target; `reply` is the stored reply for the second call.
    """

    event_id: str
    digest: str
    reply: str
    at: int


@attrs.frozen(kw_only=True)
class Progress:
    """The last value that a workflow has published, as JSON text, with the round and entry after which it did so.

    A rebuilt body publishes everything again. Round and entry tell which of these values are already stored.
    """

    workflow_key: int
    round: int
    seq: int
    value: str
    at: int
