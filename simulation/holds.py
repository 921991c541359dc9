"""Steps of programs that are undone: how they are run, and what a saga says of those inside it.

A step that is held is undone by its release; both are known by the step's number. Knows no row and judges nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import attrs

from durable.runner.combinators import Branch
from durable.runner.definitions import Durable
from durable.runner.ops import Op
from durable.runner.undo import saga
from simulation.activities import BADLY, STUBBORNLY, WELL, Broken, Stubborn, hold, release, tidy
from simulation.dice import Dice
from simulation.steps import Step

KEPT, UNDONE = "kept", "undone"
# Where these stand inside a saga, one cannot say beforehand which of its steps are undone though it succeeds.
_OPEN = {"race", "saga", "attempt", "child"}


def as_held(work: Step, dice: Dice) -> Step:
    """A step that works, as one that is undone: by one operation or by several, which may fail."""
    how = dice.weighted({"op": 2, "steps": 1})
    fails = dice.weighted({0: 6, 1: 2, 2: 1, 4: 2})
    return attrs.evolve(work, op="hold", settings=work.settings | {"undo": how, "undo_fails": fails})


def may_fail(work: Step, dice: Dice) -> Step:
    """A step that works, as one that often does not."""
    ends = dice.weighted({WELL: 1, BADLY: 1, STUBBORNLY: 1})
    return attrs.evolve(work, settings=work.settings | {"ends": ends})


def last_owes(rounds: list[Step]) -> list[Step]:
    """The same rounds, but only the last one has steps that are undone: what is owed stands in the way of the next."""
    return [*map(_without_holds, rounds[:-1]), rounds[-1]]


def _without_holds(step: Step) -> Step:
    if step.op == "child":
        return step
    op = "work" if step.op == "hold" else step.op
    return attrs.evolve(step, op=op, steps=tuple(map(_without_holds, step.steps)))


def held(step: Step) -> Op[Any]:
    """The operation of a step that is undone."""
    return hold(step.n, step["fails"], step["ends"]).undo(functools.partial(_undo, step))


def _undo(step: Step, value: list[Any]) -> Branch[Any]:
    if step["undo"] == "steps":
        return _release_in_steps(value[1], step["undo_fails"])
    return release(value[1], step["undo_fails"])


def _release_in_steps(n: int, fails: int) -> Durable[None]:
    yield from release(n, fails)
    yield from tidy(n)


def run_saga(step: Step, body: Durable[Any]) -> Durable[Any]:
    """Run what is inside as a saga: its value or its error, and the numbers of the steps that must be kept, or undone.

    Of a saga that is undone it is all steps inside, though some may not have been reached.
    """
    try:
        value = yield from saga(body)
    except (Broken, Stubborn) as error:
        return [UNDONE, f"{type(error).__name__}({error.args[0]})", _numbers(step)]
    return [KEPT, value, _kept(step)]


def fits_saga(
    step: Step, value: Any, fits: Callable[[Step, Any], bool], errors: Callable[[Step], frozenset[str]]
) -> bool:
    """Whether a saga may say this, given what fits its inside and which errors that may raise."""
    how, what, numbers = value
    if how == KEPT:
        return bool(numbers == _kept(step) and fits(step.steps[0], what))
    return bool(how == UNDONE and numbers == _numbers(step) and what in errors(step.steps[0]))


def _numbers(step: Step) -> list[int]:
    return [one.n for one in step.walk() if one.op == "hold"]


def _kept(step: Step) -> list[int]:
    is_open = any(one.op in _OPEN or one.settings.get("limit") is not None for one in step.steps[0].walk())
    return [] if is_open else _numbers(step)
