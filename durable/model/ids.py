"""Ids: how they are checked and how new ones are made.

This is the only module that draws randomness. An engine uses `new_id`, or the replacement that a test injects.
"""

from __future__ import annotations

import hashlib
import os

from durable.errors import InvalidValue, WrongType

ID_LENGTH_MAX = 255


def new_id() -> str:
    """A random id: 128 bits as 32 hexadecimal characters."""
    return os.urandom(16).hex()


def check_text(what: str, value: object, *, length_max: int = ID_LENGTH_MAX) -> str:
    """The text itself, if it can be an id, a name or a key in every store. `what` names the argument in errors.

    Raises `WrongType` or `InvalidValue`. SQLite cuts text at NUL in places, and UTF-8 has no form for a lone surrogate.
    """
    if not isinstance(value, str):
        raise WrongType(what, f"must be a str, not {type(value).__name__}")
    if not value:
        raise InvalidValue(what, "must not be empty")
    if len(value) > length_max:
        raise InvalidValue(what, f"has {len(value)} characters, the limit is {length_max}")
    if "\0" in value:
        raise InvalidValue(what, f"{value!r} contains a NUL character")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidValue(what, f"{value!r} contains a lone surrogate") from None
    return value


def check_reason(reason: object) -> str | None:
    """The reason for a cancellation: None, or a text of at most 1,000 characters."""
    return None if reason is None else check_text("reason", reason, length_max=1_000)


def digest(*parts: str) -> str:
    """A stable fingerprint of texts: 128 bits as 32 hexadecimal characters. It is stored, so it must not change."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def seed(*parts: str) -> int:
    """A number of 64 bits derived from texts, for jitter and for `random()` in a workflow. It must not change."""
    return int.from_bytes(hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest(), "big")
