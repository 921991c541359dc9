"""The schedules of a scenario, from dice of their own: what is created, and what operators do with it.

Each has a client that creates it, meddles with it and deletes it in the end, so that a scenario comes to rest. Acts are
made here as they are written down, as JSON; `scenario` reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from durable.model.schedule import CatchUp, Overlap
from simulation.dice import Dice
from simulation.rows import ROWS, Maker
from simulation.steps import Step, to_json

# In how many scenarios there are schedules: their runs are many, and most promises are about other things.
_SHARE = 0.25
_OVERLAPS = {Overlap.SKIP: 2, Overlap.QUEUE: 3, Overlap.ALLOW: 3}
_FIRST_NUMBER = 100_000


def dice_of(seed: int) -> Dice:
    """Dice of their own: a scenario without schedules is as it would be without this file."""
    return Dice(f"schedules {seed}")


def make_schedules(dice: Dice) -> Iterator[dict[str, Any]]:
    """What the clients of some schedules do, or nothing."""
    if dice.chance(_SHARE):
        for index in range(dice.between(1, 2)):
            yield from _acts(dice, index)


def grace(dice: Dice) -> dict[str, int]:
    """After how many seconds a tick is missed: few, so that a restart or a step of the clock takes longer."""
    return {"schedule_grace": dice.between(1, 12)}


def clock_steps(dice: Dice) -> Iterator[tuple[int, int]]:
    """At which steps the clock is set forward as well, and by how many milliseconds: ticks are missed by that."""
    for _ in range(dice.between(0, 2)):
        yield dice.between(40, 400), dice.between(5_000, 200_000)


def _program(dice: Dice, number: int) -> Step:
    """Something that comes to its end by itself: no two runs could be told apart by who sends an event to them."""
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
