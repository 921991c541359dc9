"""Lines: what arrives is cut into them within a limit, and whatever they hold is read or refused."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable.engine.remote import frames
from durable.engine.remote.frames import Broken, Hello, Lines


def test_lines_keep_no_more_than_the_limit() -> None:
    """The buffer never holds more than the longest line and one piece, whatever the pieces are."""
    lines = Lines(1_000)
    assert lines.feed(b"a" * 600) == []
    assert lines.feed(b"b\nc\nd") == [b"a" * 600 + b"b", b"c"]
    assert lines.feed(b"e" * 990) == []
    with pytest.raises(Broken, match="1000"):
        lines.feed(b"e" * 500)


@given(pieces=st.lists(st.binary(max_size=20), max_size=20))
def test_lines_are_the_same_however_they_are_cut(pieces: list[bytes]) -> None:
    """Lines do not depend on where the pieces begin and end."""
    lines = Lines(1_000)
    got = [line for piece in pieces for line in lines.feed(piece)]
    assert got == b"".join(pieces).split(b"\n")[:-1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=9,
)
KEYS = st.sampled_from(["ask", "abandon", "request_id", "operation", "fields", "durable", "protocol", "end", "reply"])


@settings(max_examples=500)
@given(form=st.dictionaries(KEYS, JSON, max_size=5) | JSON, raw=st.none() | st.binary(max_size=50))
def test_any_line_is_read_or_broken(form: Any, raw: bytes | None) -> None:
    """Whatever a line holds, reading it gives a value or `Broken`, on both sides."""
    line = raw if raw is not None else json.dumps(form).encode()
    for read in (Hello.read, frames.read_request, frames.read_answer):
        with contextlib.suppress(Broken):
            read(line)
