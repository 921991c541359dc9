"""Rows of steps that differ in new code: they were changed, or removed.

From some start of the process on, it runs the new code. There a changed step asks `patched`, and a removed step is
replaced by `removed`. Either way the right result is known: the result of a changed step says which code made it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import attrs

from durable.runner.changes import patched, removed
from durable.runner.definitions import Durable
from durable.runner.ops import Timer
from simulation.activities import WELL, echo, work
from simulation.dice import Dice
from simulation.rows import ROWS, Maker, Row, errors, fits, run
from simulation.steps import Step

# Whether the process that is running has the new code.
NEW_CODE: ContextVar[bool] = ContextVar("simulation.new_code", default=False)
# The name that `removed` needs for each kind of step.
_NAMES = {"work": work.name, "sleep": Timer.name, "gather": "gather"}


def deployment(seed: int) -> int:
    """The first start of the process that has the new code: 1 or a later one, or 0 for never."""
    return Dice(f"code {seed}").weighted({0: 1, 1: 1, 2: 4, 3: 3, 5: 2})


def _make_changed(maker: Maker) -> Step:
    """An old step and the new one that replaces it. Neither ends without suspending."""
    op = maker.dice.weighted({"work": 2, "draw": 1, "sleep": 1})
    new = maker.step("sleep", how="for", ms=500) if op == "sleep" else ROWS[op].make(maker)
    return maker.step("changed", ROWS["work"].make(maker), new)


def _run_changed(step: Step) -> Durable[Any]:
    old, new = step.steps
    change = f"change {step.n}"
    is_new = NEW_CODE.get() and patched(change)
    value = yield from run(new if is_new else old)
    # A second `patched` must give the same answer.
    return ["new" if is_new else "old", step.n, value, not NEW_CODE.get() or patched(change) == is_new]


def _fits_changed(step: Step, value: Any) -> bool:
    how, number, result, is_the_same = value
    old, new = step.steps
    is_whole = how in ("old", "new") and number == step.n and is_the_same is True
    return is_whole and fits(new if how == "new" else old, result)


def _make_removed(maker: Maker) -> Step:
    """A removed step that never fails: the new code could not skip a recorded failure.

    Not inside a guard, where a cancellation is cleaned up: without the step at which it was raised, the cleanup would
    get another position. There it is an ordinary step.
    """
    if maker.is_guarded:
        return ROWS["work"].make(maker)
    op = maker.dice.weighted({"work": 2, "sleep": 1, "gather": 1})
    if op == "sleep":
        return maker.step("removed", maker.step("sleep", how="for", ms=500))
    works = [_well(ROWS["work"].make(maker)) for _ in range(2 if op == "gather" else 1)]
    return maker.step("removed", maker.step("gather", *works) if op == "gather" else works[0])


def _well(work: Step) -> Step:
    return attrs.evolve(work, settings=work.settings | {"ends": WELL})


def _run_removed(step: Step) -> Durable[Any]:
    if NEW_CODE.get():
        yield from removed(_NAMES[step.steps[0].op])
    else:
        yield from run(step.steps[0])
    # So that it suspends in the new code too.
    return (yield from echo(["passed", step.n]))


CHANGE_ROWS = {
    "changed": Row(
        weight=2, make=_make_changed, run=_run_changed, fits=_fits_changed,
        errors=lambda step: frozenset().union(*map(errors, step.steps)),
    ),
    "removed": Row(
        weight=2, make=_make_removed, run=_run_removed, fits=lambda step, value: bool(value == ["passed", step.n]),
    ),
}  # fmt: skip
