"""Planted bugs: concurrent branches."""

from __future__ import annotations

from typing import Any

from durable.runner.combinators import _All, _Failures
from durable.runner.fibers import Group
from durable.runner.interpreter import Interpreter
from durable.runner.ops import Outcome, Raised, Returned
from tests.planted.planting import Planter, bug


@bug("I5", seed=3)
def settle_ends_with_a_failure(planter: Planter) -> None:
    """`settle` waits for all its branches, even if one has failed."""

    def finished(self: _All, index: int, outcome: Outcome) -> Outcome | None:
        if isinstance(outcome, Raised):
            return outcome
        self.results[index] = outcome if self.is_settled else outcome.value
        self.open -= 1
        return None if self.open else Returned(self.shape(self.results))

    planter.replace(_All, finished)


@bug("I5", "I25", "engine", seed=3)
def results_in_the_order_of_their_ends(planter: Planter) -> None:
    """Results are in the order of the branches, not in the order in which they arrived."""
    finish = _All.finished

    def finished(self: Any, index: int, outcome: Outcome) -> Outcome | None:
        return finish(self, len(self.results) - self.open, outcome)

    planter.replace(_All, finished)


@bug("I5", seed=6)
def first_success_is_the_first_end(planter: Planter) -> None:
    """`first_success` ignores failures while another branch may still succeed."""

    def finished(self: _Failures, index: int, outcome: Outcome) -> Outcome | None:
        return outcome if isinstance(outcome, Raised) else self.op.won(index, outcome.value)

    planter.replace(_Failures, finished)


@bug("I5", "I25", seed=3)
def winner_under_a_wrong_key(planter: Planter) -> None:
    """The winner is returned under the key of its own branch."""
    finish = _Failures.finished

    def finished(self: _Failures, index: int, outcome: Outcome) -> Outcome | None:
        return finish(self, 0, outcome) if isinstance(outcome, Returned) else finish(self, index, outcome)

    planter.replace(_Failures, finished)


@bug("I22", "I29")
def only_the_first_few_begin(planter: Planter) -> None:
    """When a branch of a `fan_out` ends, the next one begins."""
    begin = Interpreter._open

    def _open(self: Interpreter, group: Group, limit: int | None) -> None:
        if not group.count:
            begin(self, group, limit)

    planter.replace(Interpreter, _open)


@bug("I8", "I25", "I5", "I9", "I12", "I33", seed=65)
def positions_used_again(planter: Planter) -> None:
    """Each branch of a `fan_out` has its own position."""
    begin = Interpreter._open

    def _open(self: Interpreter, group: Group, limit: int | None) -> None:
        position = group.position
        if group.count:
            group.position = f"{position}.0.0"
        begin(self, group, limit)
        group.position = position

    planter.replace(Interpreter, _open)
