"""The JSON form of every message that goes from shard to shard. Made as the forms of operations are (`forms`).

`LETTERS` is the table: a new message between shards gets a line in it, and its form follows from its annotations.
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
)

# By the names under which they travel. No name is ever given to another message.
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
# What is about a wait of an own workflow. It never travels.
OWN: frozenset[type[Message]] = frozenset({LookAgain, EventSent, CancelSpawned, FireTimers})
_NAMES: Mapping[type[Message], str] = {kind: name for name, kind in LETTERS.items()}


def write_message(message: Message) -> str:
    """A message as one line of JSON."""
    kind = type(message)
    fields = _converter().unstructure(message, unstructure_as=kind)
    return write_text({"message": _NAMES[kind], "fields": fields})


def read_message(text: str) -> Message:
    """The message of a line. Raises `NotSupported` for one that this version does not know, or `CodecError`."""
    message: Message = read_named(_converter(), read_text(text), "message", LETTERS)
    return message


@functools.cache
def _converter() -> Converter:
    return form_converter()
