"""Rows of steps that the code does otherwise after a deployment: they were changed, or they are gone.

From some start of the process on it runs the new code. A changed step asks `patched` then, and where an old step stood
there is `removed`. Either way the right result is known: of a changed step it says which of both it was.
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

# Whether the process that runs now has the new code.
NEW_CODE: ContextVar[bool] = ContextVar("simulation.new_code", default=False)
# What `removed` is to be told of a step that is gone.
_NAMES = {"work": work.name, "sleep": Timer.name, "gather": "gather"}


def deployment(seed: int) -> int:
    """From which start of the process on it runs the new code: from the first one, from a later one, or never (0)."""
    return Dice(f"code {seed}").weighted({0: 1, 1: 1, 2: 4, 3: 3, 5: 2})


def _make_changed(maker: Maker) -> Step:
    """Two steps of which none is over at once: the old one, and the one that has replaced it."""
    op = maker.dice.weighted({"work": 2, "draw": 1, "sleep": 1})
    new = maker.step("sleep", how="for", ms=500) if op == "sleep" else ROWS[op].make(maker)
    return maker.step("changed", ROWS["work"].make(maker), new)


def _run_changed(step: Step) -> Durable[Any]:
    old, new = step.steps
    change = f"change {step.n}"
    is_new = NEW_CODE.get() and patched(change)
    value = yield from run(new if is_new else old)
    # However often it is asked.
    return ["new" if is_new else "old", step.n, value, not NEW_CODE.get() or patched(change) == is_new]


def _fits_changed(step: Step, value: Any) -> bool:
    how, number, what, is_the_same = value
    old, new = step.steps
    is_known = how in ("old", "new") and number == step.n and is_the_same is True
    return is_known and fits(new if how == "new" else old, what)


def _make_removed(maker: Maker) -> Step:
    """One of which the body does not need the result: what has failed in the old code could not be passed over.

    None where a cancellation is cleaned up: without the step at which it came, the cleanup stands elsewhere.
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
    # So that it is not over at once, in the new code either.
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
