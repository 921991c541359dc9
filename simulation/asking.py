"""The row of pauses: how a program asks people, and which answers are right."""

from __future__ import annotations

from typing import Any

from durable.errors import PauseCancelled, PauseExpired
from durable.runner.definitions import Durable
from durable.runner.pauses import pause
from simulation.dice import Dice
from simulation.steps import Step


def settings_of(dice: Dice) -> dict[str, Any]:
    """After how many milliseconds the question expires, or None."""
    return {"expires": dice.weighted({0: 1, 300: 2, 3_000: 3, 20_000: 3}) if dice.chance(0.5) else None}


def run_pause(step: Step) -> Durable[Any]:
    """Ask. The prompt is the number of the step, and a right answer begins with it."""
    expires = step["expires"]
    try:
        answer = yield from pause(
            returns=list[int], prompt=step.n, expires_after=None if expires is None else expires / 1000
        )
    except PauseExpired:
        return ["expired", step.n]
    except PauseCancelled as error:
        return ["taken back", step.n, error.reason == reason_of(step.n)]
    return ["answered", *answer[:1]]


def fits_pause(step: Step, value: Any) -> bool:
    """Whether the pause may have this value: answered, taken back, or expired if it can expire."""
    ends = [["answered", step.n], ["taken back", step.n, True]]
    return value in ends or (step["expires"] is not None and value == ["expired", step.n])


def answer_of(number: int, client: int) -> str:
    """The answer of a client, as JSON. It contains the client's number, so that no two answers are the same."""
    return f"[{number},{client}]"


def reason_of(number: int) -> str:
    """The reason with which a client takes a question back."""
    return f"no longer asked: {number}"
