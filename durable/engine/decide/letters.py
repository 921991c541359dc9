"""A letter from another shard is read, and its message is handled like a message from this shard.

The letter is deleted in the same commit as everything that follows from it, so it takes effect exactly once.
"""

from __future__ import annotations

import logging

import attrs

from durable.engine.decide.turn import Turn
from durable.engine.operations.letters import read_message
from durable.engine.operations.log_lines import Tell
from durable.engine.operations.messages import EventOffered, Message, WaitRegistered
from durable.engine.operations.recovery import ReadLetter
from durable.errors import CodecError, NotSupported


def decide_read_letter(turn: Turn, op: ReadLetter) -> None:
    """Pass the message of a letter to its handler. A letter that cannot be read is set aside, with an ERROR line.

    A letter may be unreadable because a newer version of durable wrote it. It must not block the letters behind it.
    """
    letter, outbox = op.letter, turn.state.outbox
    try:
        message = read_message(letter.text)
    except (NotSupported, CodecError) as problem:
        outbox.set_aside(letter.id)
        text = f"letter {letter.id.mark}.{letter.id.ordinal} from shard {letter.sender} is set aside: {problem}"
        turn.effects.append(Tell(logging.ERROR, text, {}))
        return
    outbox.handled(letter.id)
    turn.messages.send(_marked(message, letter.id.mark))


def _marked(message: Message, mark: int) -> Message:
    """The same message, with the mark of the commit that wrote the letter.

    The sender could not fill the mark in, because a batch has no mark before it is committed.
    """
    if isinstance(message, WaitRegistered):
        stated = message.registration
        after = mark if stated.after_mark is None else stated.after_mark
        created = mark if stated.created_mark is None else stated.created_mark
        registration = attrs.evolve(stated, after_mark=after, created_mark=created)
        return message._replace(registration=registration)
    if isinstance(message, EventOffered) and message.event.mark is None:
        # It was offered in the same commit in which it was sent.
        return message._replace(event=attrs.evolve(message.event, mark=mark))
    return message
