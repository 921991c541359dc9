"""The schedules of a scenario, from separate dice: how they are created, and what operators do with them.

Each schedule has a client that creates it, changes it and finally deletes it, so that the scenario comes to rest. Acts
are made in their written form, as JSON values, and `scenario` reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from durable.model.schedule import CatchUp, Overlap
from simulation.dice import Dice
from simulation.rows import ROWS, Maker
from simulation.steps import Step, to_json

# The share of scenarios with schedules. Not more: their runs are many, and most invariants are about other things.
_SHARE = 0.25
_OVERLAPS = {Overlap.SKIP: 2, Overlap.QUEUE: 3, Overlap.ALLOW: 3}
_FIRST_NUMBER = 100_000


def dice_of(seed: int) -> Dice:
    """Separate dice for schedules: a scenario without any is the same as if this file did not exist."""
    return Dice(f"schedules {seed}")


def make_schedules(dice: Dice) -> Iterator[dict[str, Any]]:
    """The acts of the clients of schedules; none in most scenarios."""
    if dice.chance(_SHARE):
        for index in range(dice.between(1, 2)):
            yield from _acts(dice, index)


def grace(dice: Dice) -> dict[str, int]:
    """After how many seconds a tick counts as missed: few, so that a restart or a clock step takes longer."""
    return {"schedule_grace": dice.between(1, 12)}


def clock_steps(dice: Dice) -> Iterator[tuple[int, int]]:
    """The steps at which the clock is also set forward, and by how many milliseconds, so that ticks are missed."""
    for _ in range(dice.between(0, 2)):
        yield dice.between(40, 400), dice.between(5_000, 200_000)


def _program(dice: Dice, number: int) -> Step:
    """A program that ends without events: all runs of a schedule share it, and an event could not name one of them."""
    maker = Maker(dice, number)
    rows = (dice.weighted({"work": 4, "sleep": 2, "constant": 1, "changed": 1}) for _ in range(dice.between(1, 2)))
    return maker.step("rounds", maker.step("sequence", *[ROWS[row].make(maker) for row in rows]))


def _acts(dice: Dice, index: int) -> Iterator[dict[str, Any]]:
    at = dice.below(6_000)
    fixed: dict[str, Any] = {"client": 300 + index, "id": f"s{index}"}
    plan: dict[str, Any] = {"every": dice.weighted({2: 1, 3: 2, 7: 2, 11: 2, 15: 2})}
    if dice.chance(0.5):
        plan = {"cron": f"*/{dice.weighted({4: 1, 5: 1, 10: 1, 15: 1})} * * * * *"}
    yield {
        **fixed,
        **plan,
        "at": at,
        "verb": "SCHEDULE",
        "program": to_json(_program(dice, _FIRST_NUMBER * (index + 1))),
        "overlap": dice.weighted(_OVERLAPS).name,
        "catch_up": dice.weighted(dict.fromkeys(CatchUp, 1)).name,
    }
    verbs = {"PAUSE_SCHEDULE": 1, "RESUME_SCHEDULE": 2, "TRIGGER_SCHEDULE": 2}
    for number in range(dice.between(0, 4)):
        at += dice.below(12_000)
        yield {**fixed, "at": at, "verb": dice.weighted(verbs), "run": f"s{index}.{number}"}
    yield {**fixed, "at": at + dice.between(8_000, 60_000), "verb": "DELETE_SCHEDULE"}
