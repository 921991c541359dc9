"""Settings are checked when they are created."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import attrs
import pytest

from durable import DeadLetterPolicy, EngineConfig, InvalidValue, WrongType


@pytest.mark.parametrize("value", [0, -1])
def test_counts_are_at_least_one(value: int) -> None:
    """A limit below 1 would stop everything, so it is refused."""
    with pytest.raises(InvalidValue, match=r"EngineConfig\.max_batch: must be at least 1"):
        EngineConfig(max_batch=value)


@pytest.mark.parametrize("value", [1.5, "1", True, None])
def test_counts_are_ints(value: Any) -> None:
    """A limit that is not an int is refused by name."""
    with pytest.raises(WrongType, match=r"EngineConfig\.max_inbox"):
        EngineConfig(max_inbox=value)


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_durations_make_sense(value: float) -> None:
    """An impossible duration is refused by name."""
    with pytest.raises(InvalidValue, match=r"EngineConfig\.drain"):
        EngineConfig(drain=value)


def test_policy_is_a_policy() -> None:
    """A policy that is only a string is refused."""
    wrong: Any = "discard"
    with pytest.raises(WrongType, match="dead_letter_policy"):
        EngineConfig(dead_letter_policy=wrong)


def test_settings_come_from_the_environment() -> None:
    """Each kind of field has its own form; what is empty, or belongs to somebody else, changes nothing."""
    config = EngineConfig.from_env(
        {
            "DURABLE_MAX_BATCH": "50",
            "DURABLE_DRAIN": "1m30s",
            "DURABLE_SLOW_BODY_AFTER": "0.5",
            "DURABLE_RETENTION": "30d",
            "DURABLE_DEAD_LETTER_RETENTION": "none",
            "DURABLE_DEAD_LETTER_POLICY": "discard",
            "DURABLE_CONTROL": "off",
            "DURABLE_LOG": "",
            "DURABLE_STORE": "orders.db",
            "DURABLE_PORT_80_TCP": "tcp://10.0.0.1:80",
            "MAX_INBOX": "many",
        }
    )
    assert config == EngineConfig(
        max_batch=50,
        drain=timedelta(seconds=90),
        slow_body_after=0.5,
        retention=timedelta(days=30),
        dead_letter_policy=DeadLetterPolicy.DISCARD,
        control=False,
    )


def test_settings_come_from_the_environment_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only when somebody asks for it."""
    monkeypatch.setenv("DURABLE_MAX_TAGS", "7")
    assert EngineConfig().max_tags == 100
    assert EngineConfig.from_env().max_tags == 7


@pytest.mark.parametrize("field", attrs.fields(EngineConfig), ids=lambda field: field.name)
def test_every_setting_has_a_variable(field: attrs.Attribute[Any]) -> None:
    """A text that fits no kind of setting is refused by the name of its variable."""
    variable = f"DURABLE_{field.name.upper()}"
    with pytest.raises(InvalidValue, match=f"{variable}: must be .*not 'x y'"):
        EngineConfig.from_env({variable: "x y"})


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("DURABLE_MAX_BATCH", "0", "DURABLE_MAX_BATCH: must be at least 1"),
        ("DURABLE_DRAIN", "-1", "DURABLE_DRAIN: "),
        ("DURABLE_DRAIN", "nan", "DURABLE_DRAIN: "),
        ("DURABLE_DRAIN", "900000d", "DURABLE_DRAIN: "),
        ("DURABLE_MAX_BACTH", "5", "did you mean DURABLE_MAX_BATCH?"),
    ],
)
def test_wrong_variable_is_named(variable: str, text: str, said: str) -> None:
    """A value out of range, and a misspelt name."""
    with pytest.raises(InvalidValue) as refused:
        EngineConfig.from_env({variable: text})
    assert said in str(refused.value)
