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


@attrs.frozen(slots=False)
class ProtocolMismatch(DurableError):
    """The engine and its caller are too far apart to understand each other: at most one minor version is allowed."""

    engine_version: str
    client_version: str

    says = (
        "the engine runs durable {engine_version} and this process durable {client_version}, which do not understand "
        "each other: install versions that are at most one minor version apart"
    )


@attrs.frozen(slots=False)
class ConnectionLost(DurableError):
    """The connection to an engine is gone, or could not be made. What was asked may have happened or not.

    A client that meets it looks for the next owner of the store, and repeats what was not answered.
    """

    path: str
    problem: str

    says = "the connection to the engine at {path!r} is lost: {problem}. Look for the store's owner and ask again"


@attrs.frozen(slots=False)
class EngineNotRunning(DurableError):
    """No engine owns the store, and this operation needs one. Nothing was changed."""

    store: str
    operation: str
    problem: str = "no engine has it open"

    says = "{operation} needs the engine of {store!r}: {problem}. Start the service that runs its workflows"


@attrs.frozen(slots=False)
class EngineUnreachable(DurableError, TimeoutError):
    """An engine owns the store and did not answer in time. What was asked may have happened or not."""

    store: str
    seconds: float
    problem: str

    says = (
        "the engine of {store!r} did not answer within {seconds} s: {problem}. Repeat the call; give a start "
        "or an event an id, so that the repeat counts once"
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
