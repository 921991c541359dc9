"""Which workflow this code works for, for anyone's log lines."""

from __future__ import annotations

import logging

import attrs

from durable.runner.ambient import ambient
from durable.runner.ops import IN_ACTIVITY, STEPPING


@attrs.frozen(kw_only=True)
class Context:
    """The workflow that runs here. `position`, `attempt` and `activity` only inside an activity."""

    workflow_id: str
    workflow_name: str
    position: str | None = None
    attempt: int | None = None
    activity: str | None = None


def current() -> Context | None:
    """The context of the activity or the workflow body that calls this; None anywhere else."""
    if STEPPING.get() is not None:
        who = ambient("current").who
        return Context(workflow_id=who.id, workflow_name=who.name)
    effect = IN_ACTIVITY.get()
    if effect is None:
        return None
    return Context(
        workflow_id=effect.workflow_id,
        workflow_name=effect.workflow_name,
        position=effect.position,
        attempt=effect.attempt,
        activity=effect.definition.name,
    )


class ContextFilter(logging.Filter):
    """Adds the fields of `current()` to every line that passes, whoever writes it. Add it to a handler.

    A line that is written elsewhere gets the same fields with None, so that a format may name them. Fields that a line
    has already stay.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields; every line passes."""
        context = current()
        for field in attrs.fields(Context):
            if not hasattr(record, field.name):
                setattr(record, field.name, getattr(context, field.name, None))
        return True
