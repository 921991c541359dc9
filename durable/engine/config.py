"""Every setting of an engine.

All fields are checked when the config is created, so the engine never sees an impossible value. `tests/test_house.py`
refuses a setting that no code reads. Nothing reads the environment, except `EngineConfig.from_env` for those who ask.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Self

import attrs

from durable.errors import InvalidValue, WrongType
from durable.model.clock import from_duration
from durable.model.durations import is_duration, parse_duration
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


def _flag(_config: object, field: attrs.Attribute[bool], value: object) -> None:
    if not isinstance(value, bool):
        raise WrongType(f"EngineConfig.{field.name}", f"must be True or False, not {value!r}")


Duration = timedelta | float


@attrs.frozen(kw_only=True)
class EngineConfig:
    """Limits and times of an engine. Durations are timedeltas or numbers of seconds.

    Raises `WrongType` or `InvalidValue` with the name of the field.
    """

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None) -> Self:
        """The settings in the environment of the process: `DURABLE_DRAIN=2m` is `drain`, and so on for every field.

        Variables that are empty or not set leave the default. Raises `InvalidValue` with the name of the variable.
        """
        variables = os.environ if environment is None else environment
        fields = {f"{_PREFIX}{field.name.upper()}": field for field in attrs.fields(cls)}
        for variable in variables:
            near = difflib.get_close_matches(variable, fields, n=1, cutoff=_ALIKE)
            if variable.startswith(_PREFIX) and variable not in fields and near:
                raise InvalidValue(variable, f"is not a setting; did you mean {near[0]}?")
        settings: dict[str, Any] = {}
        for variable, field in fields.items():
            if text := variables.get(variable, "").strip():
                settings[field.name] = _read(cls, variable, field, text)
        return cls(**settings)

    max_payload_bytes: int = attrs.field(default=1024 * 1024, validator=_count)
    """Largest argument list, result or event payload, as JSON in UTF-8."""
    max_pending_events: int = attrs.field(default=10_000, validator=_count)
    """Most pending events in one mailbox, and most untargeted events of one name that were not taken."""
    event_retention: Duration = attrs.field(default=timedelta(days=7), validator=_duration)
    """How long untargeted events, events for ids that are not started yet, and senders' event ids are kept."""
    retention: Duration | None = attrs.field(default=None, validator=_duration_or_none)
    """How long ended workflows are kept; None keeps them until `runs.purge`."""
    dead_letter_policy: DeadLetterPolicy = attrs.field(default=DeadLetterPolicy.MOVE_TO_DEAD_LETTER, validator=_policy)
    """Where targeted events go if their workflow ends without taking them."""
    dead_letter_retention: Duration | None = attrs.field(default=None, validator=_duration_or_none)
    """How long dead letters are kept; None keeps them until they are replayed or removed."""
    max_child_depth: int = attrs.field(default=100, validator=_count)
    """How deep workflows may nest: children, their children, and so on."""
    max_open_waits: int = attrs.field(default=100_000, validator=_count)
    """Most branches and waits that a workflow may have open at once. A workflow with more fails."""
    max_children_per_step: int = attrs.field(default=100_000, validator=_count)
    """Most children that a workflow may start in one step. A workflow that starts more fails."""
    max_tags: int = attrs.field(default=100, validator=_count)
    """Most tags of one workflow."""
    max_crashes: int = attrs.field(default=3, validator=_count)
    """How many crashes in a row a workflow may cause. With the last of them it is parked."""
    max_running_activities: int = attrs.field(default=1_000, validator=_count)
    """Most activities that run at once; the others wait their turn."""
    max_threads: int = attrs.field(default=40, validator=_count)
    """Most worker threads for activities that are plain functions."""
    max_loaded_workflows: int = attrs.field(default=5_000, validator=_count)
    """Most workflow bodies in memory. Others are rebuilt from their history when they are needed."""
    max_inbox: int = attrs.field(default=10_000, validator=_count)
    """Most calls that wait for an answer at once. Further callers wait until there is room."""
    max_steps_per_decision: int = attrs.field(default=1_000, validator=_count)
    """Most steps that one operation may cause in one commit. Further steps follow in the next commits."""
    max_batch: int = attrs.field(default=1_000, validator=_count)
    """Most operations in one commit."""
    timer_window: int = attrs.field(default=1_000, validator=_count)
    """How many timers are kept in memory, the next ones to fire."""
    slow_body_after: Duration = attrs.field(default=0.25, validator=_duration)
    """A workflow body that takes longer than this for one step is logged."""
    stuck_body_after: Duration = attrs.field(default=10.0, validator=_duration)
    """A workflow body that has not returned after this time is logged with its stack, while it is stuck."""
    commit_patience: Duration = attrs.field(default=30.0, validator=_duration)
    """How long a failing commit is retried before the engine stops."""
    drain: Duration = attrs.field(default=25.0, validator=_duration)
    """How long a shutdown waits for running activities to finish."""
    sweep_every: Duration = attrs.field(default=60.0, validator=_duration)
    """How often expired events and workflows are looked for and removed."""
    schedule_grace: Duration = attrs.field(default=60.0, validator=_duration)
    """A tick of a schedule that is later than this is missed: the schedule's `catch_up` decides whether it runs."""
    catch_up_window: Duration = attrs.field(default=timedelta(days=7), validator=_duration)
    """How far back missed ticks are caught up. Older ones are skipped."""
    control: bool = attrs.field(default=True, validator=_flag)
    """Whether other processes of this user can ask the engine, through a socket. Only for a store in a file."""
    log: bool = attrs.field(default=True, validator=_flag)
    """Whether the engine writes to the logger `durable`."""


# --- from the environment -------------------------------------------------------------------------------------------

_PREFIX = "DURABLE_"
# How similar the name of a variable must be to that of a setting to be a typing error. 1 is equal.
_ALIKE = 0.9
_FLAGS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_POLICIES = {policy.name.lower(): policy for policy in DeadLetterPolicy}


def _read_duration(text: str) -> Duration:
    """A duration with its units, or a number of seconds."""
    return parse_duration(text) if is_duration(text) else float(text)


def _read_duration_or_none(text: str) -> Duration | None:
    return None if text.lower() == "none" else _read_duration(text)


# For the check of each field: how its text is read, and what may be written.
_READERS: dict[Any, tuple[Callable[[str], Any], str]] = {
    _count: (int, "must be a whole number"),
    _duration: (_read_duration, "must be a duration such as 90s, 2h or 7d, or a number of seconds"),
    _duration_or_none: (_read_duration_or_none, "must be a duration such as 7d, a number of seconds, or none"),
    _policy: (lambda text: _POLICIES[text.lower()], f"must be one of {', '.join(_POLICIES)}"),
    _flag: (lambda text: _FLAGS[text.lower()], "must be true or false"),
}


def _read(config: type[EngineConfig], variable: str, field: attrs.Attribute[Any], text: str) -> Any:
    """The value of a variable, checked like the field. Raises `InvalidValue`."""
    read, problem = _READERS[field.validator]
    try:
        value = read(text)
    except (ValueError, KeyError):
        raise InvalidValue(variable, f"{problem}, not {text!r}") from None
    try:
        config(**{field.name: value})
    except InvalidValue as error:
        raise InvalidValue(variable, error.problem) from None
    return value
