"""One example of every message between shards: the contents of `letters.json`.

`python -m tests.formats.letters` writes that file. Do it only when a form was added or changed on purpose: letters that
were written by the version before are read by this one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from durable.engine.operations import SendEvent
from durable.engine.operations.letters import write_message
from durable.engine.operations.messages import (
    AwaitChild,
    CancelAnswered,
    CancelChild,
    ChildEnded,
    ChildRefused,
    ChildStarted,
    EventMoved,
    EventOffered,
    EventReturned,
    EventSubmitted,
    LetterRefused,
    LetterReplayed,
    Message,
    Misfit,
    ParentEnded,
    RetryChild,
    SendAnswered,
    StartChild,
    WaitId,
    WaitRegistered,
    WaitWithdrawn,
)
from durable.model.dead_letters import DeadLetter, DeadLetterReason
from durable.model.records import (
    CancelCause,
    DeliveryMode,
    EntryStatus,
    OnParentClose,
    PendingEvent,
    Registration,
    WorkflowStatus,
)

GOLDEN = Path(__file__).with_name("letters.json")
WAIT = WaitId(7, "4.left.0", 31)
REGISTRATION = Registration(rank=5, after_mark=6, created_mark=7)
EVENT = PendingEvent(
    serial=8, name="paid", event_key="k", payload="5", sent_at=9, expires_at=10, consume=False, since=11, taken=True,
    mark=12,
)  # fmt: skip
LETTER = DeadLetter(
    id=1, name="paid", event_key="k", workflow_id="w", payload_json="5", sent_at_us=2, died_at_us=3,
    reason=DeadLetterReason.UNREADABLE, detail="why", status=WorkflowStatus.FAILED, is_broadcast=True,
)  # fmt: skip
EXAMPLES: tuple[Message, ...] = (
    StartChild(WAIT, "c", "1:4.left.0", "ship", 2, '{"order":1}', OnParentClose.CANCEL, 3),
    AwaitChild(WAIT, "c", ("a", "b")),
    RetryChild(None, "c", 7, ("ship", 2, '{"order":1}')),
    CancelChild("c", 7, "p", "4.left.0", CancelCause.NOT_AWAITED),
    CancelChild("c", 7, "p", None, CancelCause.REQUESTED, "enough", WAIT),
    ParentEnded(7, "p"),
    ChildStarted(WAIT, "c"),
    ChildRefused(WAIT, "{}"),
    ChildEnded(WAIT, EntryStatus.ERROR, "{}"),
    CancelAnswered(WAIT, True),
    EventSubmitted(WAIT, SendEvent(name="paid", payload="5", to="w", expire_after=9)),
    SendAnswered(WAIT, None),
    WaitRegistered(WAIT, "paid", "k", DeliveryMode.AFTER_WAIT, REGISTRATION, 4),
    EventOffered(WAIT, EVENT, REGISTRATION),
    EventReturned(EVENT, Misfit("w", "checkout", "0", "why")),
    EventMoved(EVENT),
    LetterReplayed(LETTER, SendEvent(name="paid", payload="5", to="w")),
    LetterRefused(LETTER),
    WaitWithdrawn(WAIT),
)


def forms() -> list[Any]:
    """The form of every example."""
    return [json.loads(write_message(message)) for message in EXAMPLES]


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(forms(), indent=1, ensure_ascii=False) + "\n")
