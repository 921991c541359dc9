"""The row of loops: a program in rounds, whose state carries the results of the rounds.

The state begins with the number of the step and with how many rounds are kept. From these the rules know which entries
must be trimmed. Each round is a different step, so no two rounds can be confused.
"""

from __future__ import annotations

from typing import Any

import attrs

from durable.runner.definitions import Durable
from durable.runner.determinism import random, uuid
from durable.runner.loops import Break, Continue, loop
from simulation.rows import ROWS, Maker, Row, at_once, errors, fits, run
from simulation.steps import Step


def _make_loop(maker: Maker) -> Step:
    dice = maker.dice
    maker.depth += 1
    rounds = tuple(_make_round(maker) for _ in range(dice.weighted({1: 1, 2: 3, 3: 3, 4: 2, 5: 1})))
    maker.depth -= 1
    return maker.step("loop", *rounds, keep=dice.weighted({0: 3, 1: 2, 2: 1, 3: 1}), is_late=dice.chance(0.5))


def _make_round(maker: Maker) -> Step:
    """A step; often one that draws, or one that records nothing."""
    op = maker.dice.weighted({"draw": 1, "constant": 1, "": 5})
    return ROWS[op].make(maker) if op else maker.some()


@attrs.frozen
class _Body:
    """The body of a loop. All bodies are equal, so that the coder of their state, which is the same, is made once."""

    step: Step = attrs.field(eq=False)

    def __call__(self, state: list[Any]) -> Durable[Continue[list[Any]] | Break[list[Any]]]:
        return _run_round(self.step, state)


def _run_round(step: Step, state: list[Any]) -> Durable[Continue[list[Any]] | Break[list[Any]]]:
    _, _, number, values, drawn = state
    if number < len(step.steps):
        # Draws differ from round to round, although the calls are the same.
        drawn = [*drawn, str(uuid()), random().getrandbits(60)]
        values = [*values, (yield from run(step.steps[number]))]
        if step["is_late"] or number + 1 < len(step.steps):
            return Continue([step.n, step["keep"], number + 1, values, drawn])
    return Break(["looped", step.n, values, len(set(drawn)) == len(drawn)])


def _run_loop(step: Step) -> Durable[Any]:
    return (yield from loop(_Body(step), [step.n, step["keep"], 0, [], []], keep=step["keep"]))


def _fits_loop(step: Step, value: Any) -> bool:
    how, number, values, are_draws_different = value
    is_whole = how == "looped" and number == step.n and are_draws_different is True
    return is_whole and len(values) == len(step.steps) and all(map(fits, step.steps, values))


LOOP_ROWS = {
    "loop": Row(
        weight=3, make=_make_loop, run=_run_loop, fits=_fits_loop,
        errors=lambda step: frozenset().union(*map(errors, step.steps)),
        at_once=lambda step: all(map(at_once, step.steps)), is_leaf=False,
    ),
}  # fmt: skip
