"""Every setting of an engine; one that no code reads does not exist."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import attrs

from durable.errors import InvalidValue, WrongType
from durable.model.clock import from_duration
from durable.model.records import DeadLetterPolicy


def _count(_config: object, field: attrs.Attribute[int], value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongType(f"EngineConfig.{field.name}", f"must be an int, not {type(value).__name__}")
    if value < 1:
        raise InvalidValue(f"EngineConfig.{field.name}", f"must be at least 1, not {value}")


def _duration(_config: object, field: attrs.Attribute[Any], value: object) -> None:
    from_duration(f"EngineConfig.{field.name}", value)


def _duration_or_none(config: object, field: attrs.Attribute[Any], value: object) -> None:
    if value is not None:
        _duration(config, field, value)


def _policy(_config: object, field: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, DeadLetterPolicy):
        raise WrongType(f"EngineConfig.{field.name}", f"must be a DeadLetterPolicy, not {value!r}")


Duration = timedelta | float


@attrs.frozen(kw_only=True)
class EngineConfig:
    """Limits and times of an engine. Durations are timedeltas or seconds."""

    max_payload_bytes: int = attrs.field(default=1024 * 1024, validator=_count)
    """Largest argument list, result or event payload, as JSON."""
    max_pending_events: int = attrs.field(default=10_000, validator=_count)
    """Most events that wait in one mailbox, and most untargeted events of one name."""
    event_retention: Duration = attrs.field(default=timedelta(days=7), validator=_duration)
    """How long untargeted events, events for ids that are not started, and senders' event ids are kept."""
    retention: Duration | None = attrs.field(default=None, validator=_duration_or_none)
    """How long workflows are kept after their end; None keeps them until `runs.purge`."""
    dead_letter_policy: DeadLetterPolicy = attrs.field(default=DeadLetterPolicy.MOVE_TO_DEAD_LETTER, validator=_policy)
    """What becomes of targeted events that their workflow did not take."""
    dead_letter_retention: Duration | None = attrs.field(default=None, validator=_duration_or_none)
    """How long dead letters are kept; None: until they are replayed or removed."""
    max_child_depth: int = attrs.field(default=100, validator=_count)
    """How deep children may start children."""
    max_open_waits: int = attrs.field(default=100_000, validator=_count)
    """Most branches and waits that one workflow may have open at once; one with more fails."""
    max_children_per_step: int = attrs.field(default=100_000, validator=_count)
    """Most children that one workflow may start in one step; one with more fails."""
    max_tags: int = attrs.field(default=100, validator=_count)
    """Most tags of one workflow."""
    max_crashes: int = attrs.field(default=3, validator=_count)
    """A workflow that took the process down so many times in a row is parked."""
    max_running_activities: int = attrs.field(default=1_000, validator=_count)
    """Most activities that run at once; the others wait their turn."""
    max_threads: int = attrs.field(default=40, validator=_count)
    """Most worker threads for activities that are plain functions."""
    max_loaded_workflows: int = attrs.field(default=5_000, validator=_count)
    """Most bodies in memory; others are rebuilt from their history when they are needed."""
    max_inbox: int = attrs.field(default=10_000, validator=_count)
    """Most calls from outside that wait for an answer; further callers wait for room."""
    max_steps_per_decision: int = attrs.field(default=1_000, validator=_count)
    """Most steps that follow from one operation in one commit; the rest follow in the next ones."""
    max_batch: int = attrs.field(default=1_000, validator=_count)
    """Most operations in one commit."""
    timer_window: int = attrs.field(default=1_000, validator=_count)
    """How many of the next timers are kept in memory."""
    slow_body_after: Duration = attrs.field(default=0.25, validator=_duration)
    """A workflow body that takes longer for one step is logged."""
    stuck_body_after: Duration = attrs.field(default=10.0, validator=_duration)
    """A workflow body that has not come back for so long is logged with its stack while it is stuck."""
    commit_patience: Duration = attrs.field(default=30.0, validator=_duration)
    """How long a failing commit is tried again before the engine stops."""
    drain: Duration = attrs.field(default=25.0, validator=_duration)
    """How long a shutdown lets running activities finish."""
    sweep_every: Duration = attrs.field(default=60.0, validator=_duration)
    """How often expired events and workflows are removed."""
    schedule_grace: Duration = attrs.field(default=60.0, validator=_duration)
    """A tick of a schedule that is later than this is missed, and `catch_up` decides."""
    catch_up_window: Duration = attrs.field(default=timedelta(days=7), validator=_duration)
    """How far back missed ticks are caught up; older ones are left out."""
