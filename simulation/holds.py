"""Steps that can be undone: how they run, and what a saga reports about those inside it.

The step is a `hold`, its undo a `release`; both carry the step's number. Used by the rows; knows none of them.
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
# A saga that succeeds with one of these inside may still have undone some of its steps, and nobody can say which.
_OPEN = {"race", "saga", "attempt", "child"}


def as_held(work: Step, dice: Dice) -> Step:
    """A `work` step as a `hold`, with an undo of one operation or of several, which may fail."""
    how = dice.weighted({"op": 2, "steps": 1})
    fails = dice.weighted({0: 6, 1: 2, 2: 1, 4: 2})
    return attrs.evolve(work, op="hold", settings=work.settings | {"undo": how, "undo_fails": fails})


def may_fail(work: Step, dice: Dice) -> Step:
    """A `work` step that often fails."""
    ends = dice.weighted({WELL: 1, BADLY: 1, STUBBORNLY: 1})
    return attrs.evolve(work, settings=work.settings | {"ends": ends})


def last_owes(rounds: list[Step]) -> list[Step]:
    """The same rounds with holds only in the last: a round with undos that are owed cannot continue as the next."""
    return [*map(_without_holds, rounds[:-1]), rounds[-1]]


def _without_holds(step: Step) -> Step:
    if step.op == "child":
        return step
    op = "work" if step.op == "hold" else step.op
    return attrs.evolve(step, op=op, steps=tuple(map(_without_holds, step.steps)))


def held(step: Step) -> Op[Any]:
    """The operation of a `hold` step, with its undo."""
    return hold(step.n, step["fails"], step["ends"]).undo(functools.partial(_undo, step))


def _undo(step: Step, value: list[Any]) -> Branch[Any]:
    if step["undo"] == "steps":
        return _release_in_steps(value[1], step["undo_fails"])
    return release(value[1], step["undo_fails"])


def _release_in_steps(n: int, fails: int) -> Durable[None]:
    yield from release(n, fails)
    yield from tidy(n)


def run_saga(step: Step, body: Durable[Any]) -> Durable[Any]:
    """Run the inside as a saga. Returns its value or error, and the numbers of the steps to be kept, or undone.

    For a saga that is undone, these are all steps inside, even if some were not reached.
    """
    try:
        value = yield from saga(body)
    except (Broken, Stubborn) as error:
        return [UNDONE, f"{type(error).__name__}({error.args[0]})", _numbers(step)]
    return [KEPT, value, _kept(step)]


def fits_saga(
    step: Step, value: Any, fits: Callable[[Step, Any], bool], errors: Callable[[Step], frozenset[str]]
) -> bool:
    """Whether a saga may have this value. `fits` and `errors` are those of the table of rows."""
    how, result, numbers = value
    if how == KEPT:
        return bool(numbers == _kept(step) and fits(step.steps[0], result))
    return bool(how == UNDONE and numbers == _numbers(step) and result in errors(step.steps[0]))


def _numbers(step: Step) -> list[int]:
    """The numbers of all holds inside a step."""
    return [inner.n for inner in step.walk() if inner.op == "hold"]


def _kept(step: Step) -> list[int]:
    """The numbers of the holds that a successful saga must keep; empty if that is not known beforehand."""
    is_open = any(inner.op in _OPEN or inner.settings.get("limit") is not None for inner in step.steps[0].walk())
    return [] if is_open else _numbers(step)
