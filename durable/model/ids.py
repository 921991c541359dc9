"""Identities: how they are checked and how new ones are made.

The only module that draws randomness; engines take `new_id` from here or from a test that injects its own.
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
    """The text itself, if it can serve as an id, a name or a key in every store.

    Raises `WrongType` or `InvalidValue`.
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
    """The reason of a cancellation: a text, or none."""
    return None if reason is None else check_text("reason", reason, length_max=1_000)


def digest(*parts: str) -> str:
    """A short stable fingerprint of some texts."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def seed(*parts: str) -> int:
    """A number that follows from some texts, for jitter and for `random()` in a workflow."""
    return int.from_bytes(hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest(), "big")
