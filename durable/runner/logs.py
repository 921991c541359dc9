"""Logging from workflow bodies: each line is written once, although a body runs again on every replay.

A logger asks the session whether the body is live. Outside of a body the same logger writes every line, so helpers may
be shared with other code.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from durable.runner.ambient import ambient
from durable.runner.ops import STEPPING


def is_replaying() -> bool:
    """Whether this workflow is repeating recorded steps, or is being evicted. Raises `OperationMisused` elsewhere.

    Eviction counts because a body's `finally` blocks run then, and will run again in a later life.
    For log lines and metrics only: a body that yields other operations because of it will not match its history.
    """
    session = ambient("is_replaying")
    return session.is_closed or not session.is_live


class WorkflowLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that is silent during a replay, and adds the fields `workflow_id` and `workflow_name`."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the name of the standard library
        """Whether a line of this level is written now."""
        is_written = STEPPING.get() is None or not is_replaying()
        return is_written and super().isEnabledFor(level)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the fields. A field of the same name from the caller wins."""
        if STEPPING.get() is not None:
            who = ambient("log").who
            kwargs["extra"] = {"workflow_id": who.id, "workflow_name": who.name, **(kwargs.get("extra") or {})}
        return msg, kwargs


def workflow_logger(name: str) -> WorkflowLogger:
    """A logger for workflow bodies and their helpers: each line is written once, even if the body is replayed."""
    return WorkflowLogger(logging.getLogger(name))
