"""Errors that only callers in another process see.

Caller and engine may run different versions of durable. These two errors report where the versions differ.
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
