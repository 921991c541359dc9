"""Errors that only callers in another process meet, or who asks the wrong shard."""

from __future__ import annotations

from typing import Any

import attrs

from durable.errors.base import DurableError


@attrs.frozen(slots=False)
class RemoteError(DurableError):
    """The engine has refused with an error that this version does not know: its stored name, fields and message."""

    name: str
    fields: dict[str, Any]
    message: str

    says = "{name}: {message}"


@attrs.frozen(slots=False)
class NotSupported(DurableError):
    """The engine does not know this operation."""

    operation: str
    engine_version: str

    says = (
        "the engine runs durable {engine_version}, which has no operation {operation!r}: "
        "upgrade durable-engine there, or use the version of the engine here"
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
