"""What is stored of a workflow, as plain values.

A record never changes: a decision makes a new one, and `with_status` asks the transition table. Instants are integer
microseconds (`durable.model.clock`); payloads, results and errors are JSON text that only the codec reads.

One ascending integer, the *serial*, numbers workflows (their `key`), waits and events alike. "Sent after the workflow
was created" and "the one that has waited longest" are comparisons of serials and do not depend on any clock.
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

# Which status may follow which. What has ended stays as it is, unless an operator retries it; a child that was
# cancelled with its parent then begins anew.
TRANSITIONS: dict[WorkflowStatus, frozenset[WorkflowStatus]] = {
    WorkflowStatus.RUNNING: _ENDS | {WorkflowStatus.SUSPENDED, WorkflowStatus.PARKED},
    WorkflowStatus.SUSPENDED: _ENDS | {WorkflowStatus.RUNNING, WorkflowStatus.PARKED},
    WorkflowStatus.PARKED: frozenset({WorkflowStatus.RUNNING, WorkflowStatus.SUSPENDED, WorkflowStatus.CANCELLED}),
    WorkflowStatus.FAILED: frozenset({WorkflowStatus.RUNNING}),
    WorkflowStatus.CANCELLED: frozenset({WorkflowStatus.RUNNING}),
}


class ParkReason(enum.Enum):
    """Why a workflow is parked."""

    DIVERGED = "diverged"
    UNKNOWN_CODE = "unknown code"
    UNREADABLE = "unreadable"
    CRASHED = "crashed"


class CancelCause(enum.Enum):
    """Why a workflow is cancelled. Stored, so that no code ever compares the words of a reason."""

    REQUESTED = "requested"
    PARENT_ENDED = "parent_ended"
    NOT_AWAITED = "not_awaited"


class OnParentClose(enum.Enum):
    """What becomes of a spawned child when its parent ends, however it ends."""

    KEEP = "keep"
    CANCEL = "cancel"


# How positions name the branches of `race` and `first_success`: by number all of them, or by key those that have one.
# A run keeps the form that it began with: ids of children, pauses and idempotency keys are made of positions.
BY_NUMBER, BY_KEY = 0, 1


# Without slots: a changed copy is then one copied dict, ten times cheaper than `attrs.evolve`.
@attrs.frozen(kw_only=True, slots=False)
class WorkflowRecord:
    """One workflow by its id: who it is, how it stands, how it ended."""

    key: int
    id: str
    name: str
    version: int = 1
    status: WorkflowStatus
    input: str
    # Name and arguments of the first round, so that a repeated start is known for what it is after a `continue_as`.
    start_digest: str = ""
    created_at: int
    # When the body starts: `created_at` plus the delay that was asked for. Its first idea of `now()`.
    start_at: int
    # The earliest open deadline (a timer, a retry, a delayed start), or None.
    wake_at: int | None = None
    finished_at: int | None = None
    result: str | None = None
    error: str | None = None
    parent_key: int | None = None
    # Where in the parent it was called (`ids.place`: the position and, after a `continue_as`, the round).
    parent_place: str | None = None
    # None for one that nobody has spawned: a child that its parent awaits is cancelled with it.
    on_parent_close: OnParentClose | None = None
    depth: int = 0
    # How often it has continued as something else; positions start anew in each round.
    round: int = 0
    tags: tuple[str, ...] = ()
    cancel_requested: bool = False
    # Asked for while the code was missing: `Cancelled` is raised as soon as the body can be rebuilt.
    cancel_pending: bool = False
    cancel_reason: str | None = None
    # Who asked for it last; None while nobody has.
    cancel_cause: CancelCause | None = None
    # Unclean stops since it last made progress.
    crashes: int = 0
    park_reason: ParkReason | None = None
    park_detail: str | None = None
    # The same as `TakenBroadcast`, as older stores hold it. Moved there when the workflow takes its next broadcast.
    cursors: tuple[tuple[str, str, int], ...] = ()
    # Never stored: its row cannot be read, and this is what can be of it.
    is_damaged: bool = False
    # Never stored: the same with its end, for one that had ended and whose end can be read.
    mended: WorkflowRecord | None = None
    # `BY_NUMBER` for what older versions have stored.
    position_format: int = BY_NUMBER

    def with_status(self, status: WorkflowStatus, **changes: Any) -> WorkflowRecord:
        """This record in another status. Raises `InvariantViolated` where the transition table has no such step."""
        if status is not self.status and status not in TRANSITIONS.get(self.status, ()):
            raise InvariantViolated(f"workflow {self.id!r} cannot go from {self.status.value} to {status.value}")
        changed = object.__new__(WorkflowRecord)
        changed.__dict__.update(self.__dict__, status=status, **changes)
        return changed


class EntryKind(enum.Enum):
    """What a history entry tells the workflow."""

    ACTIVITY = "activity"
    TIMER = "timer"
    EVENT = "event"
    CHILD = "child"
    PAUSE = "pause"
    CANCEL = "cancel"
    # What it ended with cannot be stored, and undos are owed: it fails, and they run.
    REFUSAL = "refusal"
    # Of a spawned child: that it was started, how it ended, and that it was told to stop.
    SPAWN = "spawn"
    RESULT = "result"
    CANCEL_CHILD = "cancel child"
    # It has sent an event itself.
    SEND = "send"
    # The state that a round of a loop begins with.
    LOOP = "loop"
    # Looked up, never told: an answer of `patched`, and what operators have done.
    PATCH = "patch"
    REPAIRED = "repaired"
    RETRIED = "retried"
    FORKED = "forked"
    # Never stored: what a body waits for where it has `removed` something.
    REMOVED = "removed"

    # As above: a history is looked through for those that are looked up.
    __hash__ = object.__hash__


class EntryStatus(enum.Enum):
    """How it came out; a RETRY is a failed attempt that the body does not learn of."""

    OK = "ok"
    ERROR = "error"
    RETRY = "retry"


class HistoryEntry(NamedTuple):
    """One thing that a workflow learnt, in the order in which it learnt them. A tuple: every step makes one."""

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
        """What was recorded, as plain JSON data: a result, a payload, or an error with its `type` and `message`."""
        return decoded(self.outcome)

    @property
    def retry_at(self) -> datetime | None:
        """When the next attempt was due, for a failed one."""
        return None if self.retry_at_us is None else to_datetime(self.retry_at_us)


@attrs.frozen(kw_only=True)
class FailedUndo:
    """An undo that failed for good: the position and name of the step that stays done, and why."""

    position: str
    step: str
    undo: str
    error_type: str
    message: str

    def __str__(self) -> str:
        return f"undo {self.undo} of {self.step} at {self.position} failed: {self.error_type}: {self.message}"


@attrs.frozen
class WorkflowHistory:
    """A workflow with everything that it has learnt: what is needed to rebuild its body elsewhere."""

    record: WorkflowRecord
    entries: tuple[HistoryEntry, ...] = ()
    # Why some of the entries cannot be read, if so.
    damage: str | None = None


class DeliveryMode(enum.Enum):
    """Which events a wait may see."""

    ALL = "all"
    AFTER_CREATE = "after create"
    AFTER_WAIT = "after wait"


class DeadLetterPolicy(enum.Enum):
    """What becomes of targeted events that a workflow did not take before it ended."""

    MOVE_TO_DEAD_LETTER = "move to dead letter"
    MOVE_TO_BROADCAST = "move to broadcast"
    DISCARD = "discard"


@attrs.frozen
class Question:
    """What a pause asks: the prompt as JSON, the type of the answer in words, and until when it can be answered."""

    prompt: str
    expects: str
    expires_at: int | None = None


@attrs.frozen(kw_only=True)
class EventWait:
    """A workflow waits at a position for an event. The empty key means: sent without a key.

    Under the empty name, which no event can have, stand three other waits: that for the answer to a question, without a
    key; that for the end of a spawned child, whose key is the event key; and what was asked of another shard.
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
        """What is waited for: an event, an answer, the end of a child, or something else in another shard."""
        if self.asks is not None:
            return self.asks
        if self.question is not None:
            return EntryKind.PAUSE
        return EntryKind.EVENT if self.name else EntryKind.RESULT


@attrs.frozen(kw_only=True)
class PendingEvent:
    """An event that nobody has taken yet.

    `target` is the key of the workflow whose mailbox it lies in, None for the untargeted queue. `unstarted` is the id
    of a workflow that does not exist yet. A broadcast (`consume=False`) stays until it expires; `taken` says that
    somebody has taken it, so that it no longer counts as pending.
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
    # From when its retention counts: when it was sent, or became untargeted.
    since: int = attrs.field(default=attrs.Factory(lambda event: event.sent_at, takes_self=True))
    taken: bool = False
    # In a store with several shards: the mark of the commit that has stored it first, filled in by the store.
    mark: int | None = attrs.field(default=None, eq=False)


@attrs.frozen(kw_only=True)
class TakenBroadcast:
    """The last broadcast of a name and key that a workflow has taken, so that it takes none twice."""

    workflow_key: int
    name: str
    event_key: str
    serial: int


@attrs.frozen(kw_only=True)
class OpenPause:
    """A question that a workflow has put and that nobody has answered yet.

    `number` is its place in the list of all, `name` and `status` are those of the workflow, `prompt` is plain JSON data
    and `expects` the type of the answer in words.
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
        """The pause of a stored wait and its workflow. Raises `ValueError` for a prompt that is no JSON."""
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
        """When it was put."""
        return to_datetime(self.since_us)

    @property
    def expires_at(self) -> datetime | None:
        """Until when it can be answered, if it expires."""
        return None if self.expires_at_us is None else to_datetime(self.expires_at_us)


@attrs.frozen(kw_only=True)
class SentEvent:
    """A sender's event id, so that the same event sent twice is one event."""

    event_id: str
    digest: str
    reply: str
    at: int


@attrs.frozen(kw_only=True)
class Progress:
    """What a workflow has published last: JSON text, and after which entry of which round that was.

    A body that is rebuilt publishes again; by round and entry it is known what is stored already.
    """

    workflow_key: int
    round: int
    seq: int
    value: str
    at: int
