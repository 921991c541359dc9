"""The engine is not there for this caller."""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError


@attrs.frozen(slots=False)
class EngineClosed(DurableError):
    """The engine is not open: not entered yet, shutting down, or shut down."""

    problem: str = "the engine is shut down"

    says = "{problem}; use it inside 'async with'"


@attrs.frozen(slots=False)
class EngineForked(DurableError):
    """The engine was opened in another process and does not survive a fork."""

    opened_in: int

    says = "this engine belongs to process {opened_in}: open an engine of its own after the fork"
