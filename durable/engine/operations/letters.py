"""The JSON form of every message that goes from one shard to another, built with `forms` like that of operations.

`LETTERS` is the table: a new message between shards gets a line in it, and its form follows from its annotations. The
forms are stored until they are handled, and another version may read them: a field may be added with a default, but
never renamed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from cattrs import Converter

from durable.engine.operations.forms import form_converter, read_named, read_text, write_text
from durable.engine.operations.messages import (
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

# By the name under which each travels. A name is never reused for another message.
LETTERS: Mapping[str, type[Message]] = {
    "start_child": StartChild,
    "await_child": AwaitChild,
    "cancel_child": CancelChild,
    "retry_child": RetryChild,
    "parent_ended": ParentEnded,
    "child_started": ChildStarted,
    "child_refused": ChildRefused,
    "child_ended": ChildEnded,
    "cancel_answered": CancelAnswered,
    "event_submitted": EventSubmitted,
    "send_answered": SendAnswered,
    "wait_registered": WaitRegistered,
    "event_offered": EventOffered,
    "event_returned": EventReturned,
    "event_moved": EventMoved,
    "letter_replayed": LetterReplayed,
    "letter_refused": LetterRefused,
    "wait_withdrawn": WaitWithdrawn,
}
# Messages about a workflow of this shard. They never travel.
OWN: frozenset[type[Message]] = frozenset({WorkflowEnded, LookAgain, EventSent, CancelSpawned, FireTimers})
_NAMES: Mapping[type[Message], str] = {kind: name for name, kind in LETTERS.items()}


def write_message(message: Message) -> str:
    """A message as one line of JSON."""
    kind = type(message)
    fields = _converter().unstructure(message, unstructure_as=kind)
    return write_text({"message": _NAMES[kind], "fields": fields})


def read_message(text: str) -> Message:
    """The message in a line of JSON. Raises `NotSupported` for a kind from a newer version, or `CodecError`."""
    message: Message = read_named(_converter(), read_text(text), "message", LETTERS)
    return message


@functools.cache
def _converter() -> Converter:
    return form_converter()
