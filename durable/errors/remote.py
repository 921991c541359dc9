"""Errors that only callers in another process meet."""

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
