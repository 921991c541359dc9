"""Planted bugs: undos. Which run, when, in which order, and how they are reported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from durable.errors import Cancelled
from durable.model import position
from durable.model.records import HistoryEntry
from durable.runner import undo
from durable.runner.fibers import Fiber, Group
from durable.runner.ops import Raised
from durable.runner.results import End, Failed, SessionResult
from durable.runner.session import WorkflowSessionRunner
from durable.runner.undo import Owed, Scope, Stepper, Undos
from tests.planted.planting import Planter, bug


@bug("I31", "I25", seed=6)
def undos_forgotten_by_a_replay(planter: Planter) -> None:
    """A rebuilt workflow owes the same undos as before."""
    replay = WorkflowSessionRunner.replay

    def replayed(self: WorkflowSessionRunner, entries: Iterable[HistoryEntry], **more: bool) -> SessionResult:
        result = replay(self, entries, **more)
        if self.interpreter.undos is not None:
            self.interpreter.undos.root.owed.clear()
        return result

    replayed.__name__ = "replay"
    planter.replace(WorkflowSessionRunner, replayed)


@bug("I31", seed=31)
def undos_in_the_order_of_the_steps(planter: Planter) -> None:
    """The last step is undone first."""
    begin = Undos._next

    def _next(self: Undos, stepper: Stepper, scope: Scope, group: Group | None) -> bool:
        scope.owed.reverse()
        begun = begin(self, stepper, scope, group)
        scope.owed.reverse()
        return begun

    planter.replace(Undos, _next)


@bug("I31", seed=21)
def undo_run_twice_after_a_replay(planter: Planter) -> None:
    """A recorded undo does not run again, even if its workflow is rebuilt between undos."""
    replay, end = WorkflowSessionRunner.replay, Undos.finish
    rebuilt: set[int] = set()

    def replayed(self: WorkflowSessionRunner, entries: Iterable[HistoryEntry]) -> SessionResult:
        result = replay(self, entries)
        if self.interpreter.undos is not None:
            rebuilt.update(owed.number for _, owed in self.interpreter.undos.running.values())
        return result

    def finish(self: Undos, stepper: Stepper, fiber: Fiber, outcome: Any) -> None:
        scope, owed = self.running[fiber]
        if owed.number in rebuilt:
            rebuilt.discard(owed.number)
            scope.owed.append(owed)
        end(self, stepper, fiber, outcome)

    replayed.__name__ = "replay"
    planter.replace(WorkflowSessionRunner, replayed)
    planter.replace(Undos, finish)


@bug("I5", seed=53)
def error_of_an_undo_hides_the_first(planter: Planter) -> None:
    """A workflow fails with its own error, even if its undos fail too."""
    report = Undos._report

    def _report(self: Undos, scope: Scope, owed: Owed, error: BaseException) -> None:
        report(self, scope, owed, error)
        if isinstance(self.end, Failed):
            self.end = Failed(error)

    planter.replace(Undos, _report)


@bug("I31", seed=38)
def failed_undo_stops_the_others(planter: Planter) -> None:
    """The other undos run even if one of them fails."""
    report = Undos._report

    def _report(self: Undos, scope: Scope, owed: Owed, error: BaseException) -> None:
        report(self, scope, owed, error)
        scope.owed.clear()

    planter.replace(Undos, _report)


@bug("I31", seed=6)
def undos_not_run_when_cancelled(planter: Planter) -> None:
    """A cancelled workflow runs its undos, like one that fails."""
    unwind = Undos.end_with

    def end_with(self: Undos, stepper: Stepper, end: End) -> None:
        if isinstance(end, Failed) and isinstance(end.error, Cancelled):
            stepper.end = end
        else:
            unwind(self, stepper, end)

    planter.replace(Undos, end_with)


@bug("I31", seed=21)
def cancellation_interrupts_undos(planter: Planter) -> None:
    """A running undo is not cancelled."""

    def shield_of(fiber: Fiber) -> Fiber | None:
        return None

    planter.replace(undo, shield_of)


@bug("I31", seed=30)
def saga_that_succeeds_forgets(planter: Planter) -> None:
    """When a saga succeeds, the workflow around it takes over its undos."""

    def _hand_over(self: Undos, group: Group) -> None:
        assert isinstance(group.tally, Scope)
        group.tally.owed = []

    planter.replace(Undos, _hand_over)


@bug("I31", seed=3)
def saga_that_succeeds_is_undone(planter: Planter) -> None:
    """Only a saga that fails or loses is undone."""

    def _hand_over(self: Undos, group: Group) -> None:
        """Nothing, so the saga still owes its undos afterwards."""

    planter.replace(Undos, _hand_over)


@bug("I31", seed=308)
def saga_that_loses_forgets(planter: Planter) -> None:
    """The steps of a saga that loses are undone."""

    def closed(self: Undos, stepper: Stepper, group: Group) -> None:
        if isinstance(group.tally, Scope):
            group.tally.owed.clear()

    planter.replace(Undos, closed)


@bug("I31", seed=4)
def saga_goes_on_before_it_is_undone(planter: Planter) -> None:
    """When a body catches the error of a saga, the saga is already undone."""
    go_on = Undos._go_on

    def _go_on(self: Undos, stepper: Stepper, group: Group) -> None:
        verdict = self.held.get(group)
        go_on(self, stepper, group)
        if group in self.held and isinstance(verdict, Raised) and group.fiber.is_live:
            self.held[group] = None
            group.fiber.group = None
            stepper.resume(group.fiber, verdict)

    planter.replace(Undos, _go_on)


@bug("I31", seed=2)
def steps_of_branches_not_owed(planter: Planter) -> None:
    """Steps inside branches are undone too."""
    owe = Undos.owe

    def owe_outside(self: Undos, fiber: Fiber, op: Any, value: Any) -> None:
        if fiber.owner is None:
            owe(self, fiber, op, value)

    owe_outside.__name__ = "owe"
    planter.replace(Undos, owe_outside)


@bug("I25", "I31", seed=2)
def undos_of_a_saga_and_of_the_workflow_at_one_place(planter: Planter) -> None:
    """The undos of each scope have their own positions."""

    def undo_prefix(scope: str, number: int) -> str:
        return f"u.{number}."

    planter.replace(position, undo_prefix)
