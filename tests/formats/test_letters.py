"""Every message between shards survives its form, and its form does not change."""

from __future__ import annotations

import json
import typing

import attrs
import pytest

from durable.engine.operations import messages
from durable.engine.operations.letters import LETTERS, OWN, read_message, write_message
from durable.errors import CodecError, NotSupported
from tests.formats.letters import EXAMPLES, GOLDEN, forms


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_message_comes_back_as_it_was(message: messages.Message) -> None:
    """The type and every field, also those that do not count for equality."""
    back = read_message(write_message(message))
    assert type(back) is type(message)
    assert back == message
    if isinstance(message, messages.EventOffered) and isinstance(back, messages.EventOffered):
        assert attrs.asdict(back.event) == attrs.asdict(message.event)


def test_every_message_travels_or_is_about_an_own_wait() -> None:
    """A new message needs a line in one of the two tables, and an example."""
    kinds = set(typing.get_args(messages.Message))
    travelling = set(LETTERS.values())
    assert travelling | OWN == kinds
    assert not travelling & OWN
    assert {type(example) for example in EXAMPLES} == travelling


def test_forms_are_pinned() -> None:
    """A letter that was written before an upgrade can be read after it."""
    assert forms() == json.loads(GOLDEN.read_text())


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"message": "newer", "fields": {}}', NotSupported),
        ('{"message": "parent_ended", "fields": {"parent_key": "7", "parent_id": "p"}}', CodecError),
        ('{"message": "parent_ended"}', CodecError),
        ("nothing", CodecError),
    ],
)
def test_unreadable_letter(text: str, error: type[Exception]) -> None:
    """It is refused with an error that says so, and no class is looked up."""
    with pytest.raises(error):
        read_message(text)
