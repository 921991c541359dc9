"""Rows of branches: `settle` and `first_success`, which handle failures, and `fan_out`, which limits how many run.

The first two catch what their branches raise, so the steps inside them may fail more often, and the right result is
still known for each.
"""

from __future__ import annotations

from typing import Any

from durable.runner.combinators import AllFailed, fan_out, first_success, settle
from durable.runner.definitions import Durable
from durable.runner.ops import Returned
from simulation.activities import Broken, Stubborn
from simulation.rows import Maker, Row, at_once, errors, fits, run, tag
from simulation.steps import Step


def _make_caught(op: str, least: int, most: int) -> Any:
    def make(maker: Maker) -> Step:
        was_caught, maker.is_caught = maker.is_caught, True
        inside = maker.inside(least, most)
        maker.is_caught = was_caught
        return maker.step(op, *inside)

    return make


def _failure(error: BaseException) -> str:
    """The tag of an error that a step is meant to raise. Any other error is raised again."""
    if not isinstance(error, Broken | Stubborn):
        raise error
    return tag(type(error).__name__, error.args[0])


def _run_settle(step: Step) -> Durable[Any]:
    outcomes = yield from settle(*map(run, step.steps))
    return [["fine", end.value] if isinstance(end, Returned) else ["caught", _failure(end.error)] for end in outcomes]


def _fits_outcome(step: Step, outcome: Any) -> bool:
    how, result = outcome
    return fits(step, result) if how == "fine" else bool(how == "caught" and result in errors(step))


def _fits_settle(step: Step, value: Any) -> bool:
    return len(value) == len(step.steps) and all(map(_fits_outcome, step.steps, value))


def _run_first(step: Step) -> Durable[Any]:
    named = {f"b{place}": run(branch) for place, branch in enumerate(step.steps)}
    try:
        won = yield from first_success(**named)
    except AllFailed as failed:
        return ["none", [[key, _failure(error)] for key, error in failed.errors.items()]]
    return ["won", won.key, won.value]


def _fits_first(step: Step, value: Any) -> bool:
    how, *details = value
    if how == "won":
        key, result = details
        winner = step.steps[int(key.removeprefix("b"))]
        # A step that never suspends wins against all that do.
        return (at_once(winner) or not any(map(at_once, step.steps))) and fits(winner, result)
    (failures,) = details
    names = [f"b{place}" for place in range(len(step.steps))]
    are_right = all(error in errors(branch) for branch, (_, error) in zip(step.steps, failures, strict=True))
    return bool(how == "none" and [name for name, _ in failures] == names and are_right)


def _make_fan_out(maker: Maker) -> Step:
    most = maker.dice.weighted({1: 3, 2: 3, 3: 1, 9: 1})
    return maker.step("fan_out", *maker.inside(0, 5), most=most)


def _run_fan_out(step: Step) -> Durable[Any]:
    return (yield from fan_out(run, step.steps, limit=step["most"]))


def _fits_all(step: Step, value: Any) -> bool:
    return len(value) == len(step.steps) and all(map(fits, step.steps, value))


BRANCH_ROWS = {
    "settle": Row(
        weight=2, make=_make_caught("settle", 0, 4), run=_run_settle, fits=_fits_settle,
        at_once=lambda step: all(map(at_once, step.steps)), is_leaf=False,
    ),
    "first_success": Row(
        weight=2, make=_make_caught("first_success", 1, 4), run=_run_first, fits=_fits_first,
        at_once=lambda step: any(map(at_once, step.steps)), is_leaf=False,
    ),
    "fan_out": Row(
        weight=2, make=_make_fan_out, run=_run_fan_out, fits=_fits_all,
        errors=lambda step: frozenset().union(*map(errors, step.steps)),
        at_once=lambda step: all(map(at_once, step.steps)), is_leaf=False,
    ),
}  # fmt: skip
