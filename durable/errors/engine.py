"""The engine cannot serve this caller."""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError


@attrs.frozen(slots=False)
class EngineClosed(DurableError):
    """The engine is not open: it was not entered yet, is shutting down, or is shut down."""

    problem: str = "the engine is shut down"

    says = "{problem}; use it inside 'async with'"


@attrs.frozen(slots=False)
class EngineForked(DurableError):
    """The engine was opened in another process, and an engine does not survive a fork. `opened_in` is its pid."""

    opened_in: int

    says = "this engine belongs to process {opened_in}: open a new engine after the fork"
