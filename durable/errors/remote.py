"""Errors that callers meet in another process, or when they ask the wrong shard.

Caller and engine may run different versions of durable: `RemoteError` and `NotSupported` report where they differ.
"""

from __future__ import annotations

from typing import Any

import attrs

from durable.errors.base import DurableError


@attrs.frozen(slots=False)
class RemoteError(DurableError):
    """The engine refused with an error that this version does not have.

    The stored name, the fields and the message are those that the engine sent.
    """

    name: str
    fields: dict[str, Any]
    message: str

    says = "{name}: {message}"


@attrs.frozen(slots=False)
class NotSupported(DurableError):
    """The engine does not have this operation: it runs an older durable than the caller."""

    operation: str
    engine_version: str

    says = (
        "the engine runs durable {engine_version}, which has no operation {operation!r}: "
        "upgrade durable-engine there, or install the engine's version here"
    )


# --- stores with several shards: no service meets these, because its engine opens stores with one ------------------


@attrs.frozen(slots=False)
class WrongShard(DurableError):
    """An operation was sent to a coordinator that does not decide it."""

    operation: str
    home: int
    shard: int

    says = "{operation} is decided in shard {home} and was sent to shard {shard}: ask the coordinator of shard {home}"


@attrs.frozen(slots=False)
class NotAcrossShards(DurableError):
    """Something that only works in a store with one shard, or where all that belongs to it lives in one."""

    what: str

    says = "{what} does not work across shards yet; nothing was changed"
