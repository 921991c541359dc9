"""Programs that make letters: on top of what a scenario has, in stores with several shards, from dice of their own."""

from __future__ import annotations

from collections.abc import Iterator

from simulation.dice import Dice
from simulation.rows import ROWS, Maker
from simulation.steps import Step

# Of the steps of these programs: no other program has such numbers.
_FIRST_NUMBER = 7_000_000
# What reaches into other shards most, and what takes time in between.
_OPS = {"child": 3, "spawn": 4, "event": 5, "race": 2, "gather": 1, "loop": 1, "work": 1, "sleep": 2}


def make_travellers(seed: int) -> Iterator[tuple[str, Step]]:
    """Ids and programs of workflows that call children, spawn some, and wait for events."""
    dice = Dice(f"travellers {seed}")
    for index in range(dice.between(1, 4)):
        # Not too deep: what stands inside may branch as well.
        maker = Maker(dice, _FIRST_NUMBER + 10_000 * index, depth=1)
        steps = [ROWS[dice.weighted(_OPS)].make(maker) for _ in range(dice.between(2, 4))]
        yield f"t{index}", maker.step("rounds", maker.step("sequence", *steps), publishes=dice.chance(0.2))
