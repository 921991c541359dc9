"""Log lines of workflow bodies. A body runs again from its history after a restart, and must not log it all again."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from durable.runner.ambient import ambient
from durable.runner.ops import STEPPING


def is_replaying() -> bool:
    """Whether this workflow does again what it has done before, or may do later. Raises `OperationMisused` elsewhere.

    That is so on a replay, and while a body is thrown away from memory: its `finally` blocks run then, too.
    For log lines and metrics only: a body that asks for something else because of this no longer fits its history.
    """
    session = ambient("is_replaying")
    return session.is_closed or not session.is_live


class WorkflowLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that is silent while a body is replayed, and adds who logs: `workflow_id` and `workflow_name`."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the name of the standard library
        """Whether a line of this level is written now."""
        is_written = STEPPING.get() is None or not is_replaying()
        return is_written and super().isEnabledFor(level)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the fields; those that the caller gives stay."""
        if STEPPING.get() is not None:
            who = ambient("log").who
            kwargs["extra"] = {"workflow_id": who.id, "workflow_name": who.name, **(kwargs.get("extra") or {})}
        return msg, kwargs


def workflow_logger(name: str) -> WorkflowLogger:
    """A logger for workflow bodies and their helpers: each line is written once, however often the body is replayed."""
    return WorkflowLogger(logging.getLogger(name))
