"""Planted bugs: what is owed is undone, by whom, when, in which order, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from durable import position
from durable.errors import Cancelled
from durable.records import HistoryEntry
from durable.runner import undo
from durable.runner.fibers import Fiber, Group
from durable.runner.ops import Raised
from durable.runner.results import Completed, ContinueAs, Failed, SessionResult
from durable.runner.session import WorkflowSessionRunner
from durable.runner.undo import Books, Owed, Scope, Undoer
from tests.planted.planting import Planter, bug


@bug("I31", "I25", seed=5)
def undos_forgotten_by_a_replay(planter: Planter) -> None:
    """A workflow that was rebuilt owes what it owed before."""
    replay = WorkflowSessionRunner.replay

    def replayed(self: WorkflowSessionRunner, entries: Iterable[HistoryEntry], **more: bool) -> SessionResult:
        result = replay(self, entries, **more)
        if self._books is not None:
            self._books.root.owed.clear()
        return result

    replayed.__name__ = "replay"
    planter.replace(WorkflowSessionRunner, replayed)


@bug("I31", seed=3)
def undos_in_the_order_of_the_steps(planter: Planter) -> None:
    """What was done last is undone first."""
    begin = Undoer._next

    def _next(self: Undoer, books: Books, scope: Scope, group: Group | None) -> bool:
        scope.owed.reverse()
        begun = begin(self, books, scope, group)
        scope.owed.reverse()
        return begun

    planter.replace(Undoer, _next)


@bug("I31", seed=14)
def undo_run_twice_after_a_replay(planter: Planter) -> None:
    """An undo that is recorded is done, also for a workflow that was rebuilt in the middle of it."""
    replay, finish = WorkflowSessionRunner.replay, Undoer._finish
    rebuilt: set[int] = set()

    def replayed(self: WorkflowSessionRunner, entries: Iterable[HistoryEntry]) -> SessionResult:
        result = replay(self, entries)
        if self._books is not None:
            rebuilt.update(owed.number for _, owed in self._books.running.values())
        return result

    def _finish(self: Undoer, fiber: Fiber, outcome: Any) -> None:
        if fiber.index == undo.UNDO and self._books is not None:
            scope, owed = self._books.running[fiber]
            if owed.number in rebuilt:
                rebuilt.discard(owed.number)
                scope.owed.append(owed)
        finish(self, fiber, outcome)

    replayed.__name__ = "replay"
    planter.replace(WorkflowSessionRunner, replayed)
    planter.replace(Undoer, _finish)


@bug("I5", seed=3)
def error_of_an_undo_hides_the_first(planter: Planter) -> None:
    """A workflow fails with its own error, whatever its undos come to."""
    report = undo._report

    def _report(books: Books, scope: Scope, owed: Owed, error: BaseException) -> None:
        report(books, scope, owed, error)
        if isinstance(books.end, Failed):
            books.end = Failed(error)

    planter.replace(undo, _report)


@bug("I31", seed=38)
def failed_undo_stops_the_others(planter: Planter) -> None:
    """The other undos run, though one has failed."""
    report = undo._report

    def _report(books: Books, scope: Scope, owed: Owed, error: BaseException) -> None:
        report(books, scope, owed, error)
        scope.owed.clear()

    planter.replace(undo, _report)


@bug("I31", seed=5)
def undos_not_run_when_cancelled(planter: Planter) -> None:
    """A cancelled workflow is undone like one that fails."""
    end_with = Undoer._end_with

    def _end_with(self: Undoer, end: Completed | Failed | ContinueAs) -> None:
        if isinstance(end, Failed) and isinstance(end.error, Cancelled):
            self._end = end
        else:
            end_with(self, end)

    planter.replace(Undoer, _end_with)


@bug("I31", seed=11)
def cancellation_interrupts_undos(planter: Planter) -> None:
    """An undo that runs is not cancelled."""

    def shield_of(fiber: Fiber) -> Fiber | None:
        return None

    planter.replace(undo, shield_of)


@bug("I31", seed=30)
def saga_that_succeeds_forgets(planter: Planter) -> None:
    """What a saga owes is owed by the workflow behind it."""

    def _hand_over(books: Books, group: Group) -> None:
        assert isinstance(group.tally, Scope)
        group.tally.owed = []

    planter.replace(undo, _hand_over)


@bug("I31", seed=3)
def saga_that_succeeds_is_undone(planter: Planter) -> None:
    """Only what fails or loses is undone."""

    def _hand_over(books: Books, group: Group) -> None:
        """Nothing, so that the saga still owes when it goes on."""

    planter.replace(undo, _hand_over)


@bug("I31", seed=23)
def saga_that_loses_forgets(planter: Planter) -> None:
    """What a saga has done before it lost is undone."""
    close = Undoer._close

    def _close(self: Undoer, fiber: Fiber) -> None:
        if self._books is not None and fiber.group is not None and isinstance(fiber.group.tally, Scope):
            fiber.group.tally.owed.clear()
        close(self, fiber)

    planter.replace(Undoer, _close)


@bug("I31", seed=3)
def saga_goes_on_before_it_is_undone(planter: Planter) -> None:
    """Whoever catches the error of a saga finds it undone."""
    go_on = Undoer._go_on

    def _go_on(self: Undoer, books: Books, group: Group) -> None:
        verdict = books.held.get(group)
        go_on(self, books, group)
        if group in books.held and isinstance(verdict, Raised) and group.fiber.is_live:
            books.held[group] = None
            group.fiber.group = None
            self._resume(group.fiber, verdict)

    planter.replace(Undoer, _go_on)


@bug("I31", seed=2)
def steps_of_branches_not_owed(planter: Planter) -> None:
    """Steps inside branches are undone too."""
    owe = Undoer.owe

    def owe_outside(self: Undoer, op: Any, value: Any) -> None:
        if self.stepped is not None and self.stepped.owner is None:
            owe(self, op, value)

    owe_outside.__name__ = "owe"
    planter.replace(Undoer, owe_outside)


@bug("I25", "I31", seed=2)
def undos_of_a_saga_and_of_the_workflow_at_one_place(planter: Planter) -> None:
    """The undos of each scope have positions of their own."""

    def undo_prefix(scope: str, number: int) -> str:
        return f"u.{number}."

    planter.replace(position, undo_prefix)
