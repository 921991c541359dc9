"""Undo: what is owed once a step has succeeded, and how it is run.

`op.undo(fn)` owes `fn(result)` to the scope around the step: the nearest `saga`, else the workflow. A scope that fails,
is cancelled, or is closed because its branch has lost runs what it owes, the step that completed last first. A saga
that succeeds hands what it owes to the scope around it.

Each undo is a fiber of its own (`u.0.`, `u.1.` below its scope), one after the other, and nothing but the end of the
session interrupts it: whoever waits for the scope, or for a group in which it was closed, hears of it when the undos
are done. All of it follows from the entries, so a replay comes to the same undo.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from durable.errors import Cancelled, OperationMisused
from durable.outcomes import failed_undo, report_undos
from durable.position import undo_prefix
from durable.records import FailedUndo
from durable.runner.combinators import Branch
from durable.runner.definitions import ContinueRequested, Definition
from durable.runner.fibers import Fiber, Group, groups_around
from durable.runner.interpreter import Interpreter
from durable.runner.loops import Course, courses_around
from durable.runner.ops import Branches, Op, Outcome, Raised, Returned, T_co, Tally, Undo, use
from durable.runner.results import Completed, ContinueAs, Failed

T = TypeVar("T")
# The index of a fiber that is an undo: it is no branch of its group.
UNDO = -1
# What stands in the position of an undo where a branch has its number or its name.


class Saga(Branches[T_co]):
    """A helper whose undos run when it fails."""

    verb = "saga"

    def tally(self) -> Tally:
        return Scope()


def saga(body: Branch[T]) -> Op[T]:
    """Run a helper; if it fails, what its steps owe is undone before the error is raised.

    If it succeeds, what its steps owe is owed by the saga or workflow around it.
    """
    return Saga((body,))


class Owed(NamedTuple):
    """One undo that is owed. The number tells in which order steps have completed."""

    number: int
    # Where the step stands.
    position: str
    op: Undo[Any]
    value: Any
    # The rounds of loops that are held for it.
    rounds: tuple[tuple[Course, int], ...]

    @property
    def name(self) -> str:
        """What undoes the step, for people."""
        fn: Any = self.op.fn
        if isinstance(fn, Definition):
            return fn.name
        return str(getattr(fn, "__qualname__", type(fn).__name__)).rpartition("<locals>.")[2]


class Scope:
    """What is owed until a saga or the workflow ends: the tally of a saga, which ends as its helper does."""

    __slots__ = ("begun", "failed", "owed")

    def __init__(self) -> None:
        self.owed: list[Owed] = []
        # How many undos were begun, and which of them have failed.
        self.begun = 0
        self.failed: list[FailedUndo] = []

    def empty(self) -> Outcome:
        """Not asked for: there is always one helper."""
        raise AssertionError("a saga has a helper")

    def finished(self, index: int, outcome: Outcome) -> Outcome:
        """As the helper ends."""
        return outcome


class Books:
    """What a session keeps of undos; made when the first one is owed."""

    __slots__ = ("busy", "end", "failed", "held", "number", "root", "running", "scopes", "undone", "was_cancelled")

    def __init__(self) -> None:
        self.number = 0
        self.root = Scope()
        # The scopes that owe something.
        self.scopes: dict[Scope, None] = {}
        # Undos that run, and how many of them run inside each group.
        self.running: dict[Fiber, tuple[Scope, Owed]] = {}
        self.busy: dict[Group, int] = {}
        # Groups that are decided, and what their fibers hear when the undos inside are done; None if they are closed.
        self.held: dict[Group, Outcome | None] = {}
        # How the workflow ends when its undos are done, and whether it was cancelled before they began.
        self.end: Completed | Failed | ContinueAs | None = None
        self.was_cancelled = False
        self.failed: list[FailedUndo] = []
        # Steps whose undo has begun, but for those whose undo has failed: they stay done.
        self.undone: list[Owed] = []


class Undoer(Interpreter):
    """An interpreter that undoes."""

    is_cancelled = False
    _books: Books | None = None

    def owe(self, op: Undo[Any], value: Any) -> None:
        """A step has succeeded: what undoes it is owed by the scope around it. Nobody undoes the steps of an undo."""
        fiber = self.stepped
        assert fiber is not None, "a body is stepped"
        books = self._books
        if books is None:
            books = self._books = Books()
        scope = _scope_around(fiber, books)
        if scope is not None:
            books.number += 1
            rounds = tuple((course, course.hold()) for course in courses_around(fiber))
            scope.owed.append(Owed(books.number, f"{fiber.prefix}{fiber.count - 1}", op, value, rounds))
            books.scopes[scope] = None

    @property
    def owes(self) -> bool:
        """Whether the workflow itself, outside of any saga, owes something."""
        return self._books is not None and bool(self._books.root.owed)

    def owed(self) -> list[Owed]:
        """All that is owed, in the order in which it would be undone."""
        if self._books is None:
            return []
        found = [one for _, one in self._books.running.values()]
        found += (one for scope in self._books.scopes for one in scope.owed)
        return sorted(found, key=lambda one: one.number, reverse=True)

    def undone(self) -> list[Owed]:
        """The steps that are undone, or are being undone, the first that was done first."""
        return [] if self._books is None else sorted(self._books.undone, key=lambda step: step.number)

    @property
    def undone_failure(self) -> Failed | None:
        """How the workflow ends when the undos that run now are done, if it has failed."""
        end = self._books.end if self._books is not None else None
        return end if isinstance(end, Failed) else None

    def failed_undos(self) -> list[FailedUndo]:
        """Every undo that has failed for good, in the workflow and in its sagas."""
        return [] if self._books is None else self._books.failed

    # --- endings --------------------------------------------------------------------------------------------------

    def _end_with(self, end: Completed | Failed | ContinueAs) -> None:
        """A workflow that has failed, or was cancelled, ends when what it owes is undone."""
        books = self._books
        if isinstance(end, ContinueAs) and self.owes and not self.is_cancelled:
            end = Failed(OperationMisused(self._why_not_continue()))
        if books is not None and (isinstance(end, Failed) or self.is_cancelled):
            books.end, books.was_cancelled = end, self.is_cancelled
            self._unwind(books)
        else:
            super()._end_with(end)

    def _why_not_continue(self) -> str:
        owed = self.owed()
        names = ", ".join(one.name for one in owed[:3])
        return (
            f"continue_as while {len(owed)} undos are owed ({names}): they would be forgotten with the history; "
            f"do those steps in a child workflow, whose undos end with it"
        )

    def _unwind(self, books: Books) -> None:
        """Go on with the undos of the workflow itself; behind the last one it ends."""
        if self._next(books, books.root, None):
            return
        end = books.end
        if books.failed or self.is_cancelled is not books.was_cancelled:
            error = end.error if isinstance(end, Failed) else self._cancelled(None)
            if self.is_cancelled is not books.was_cancelled:
                error = self._cancelled(error)
            report_undos(error, books.failed)
            end = Failed(error)
        self._end = end

    def _cancelled(self, cause: BaseException | None) -> Cancelled:
        """A cancellation that came while an error was being undone does not hide it."""
        error = Cancelled(self._cancel_reason)
        error.__cause__ = cause
        return error

    def _finish(self, fiber: Fiber, outcome: Outcome | ContinueRequested) -> None:
        if fiber.index != UNDO:
            super()._finish(fiber, outcome)
            return
        fiber.is_live = False
        books = self._books
        assert books is not None, "an undo was owed"
        scope, owed = books.running.pop(fiber)
        if isinstance(outcome, ContinueRequested):
            outcome = Raised(OperationMisused("continue_as inside an undo: only the workflow itself can continue"))
        if isinstance(outcome, Raised):
            # Its rounds stay held: the end of the workflow tells of it. An undo that failed at its first step has
            # undone nothing; one that came further has undone a part, and nobody may take the step for done.
            if fiber.count == 1:
                books.undone.remove(owed)
            _report(books, scope, owed, outcome.error)
        else:
            for course, start in owed.rounds:
                course.let_go(start)
        if fiber.owner is None:
            self._unwind(books)
            return
        for group in groups_around(fiber):
            books.busy[group] -= 1
            self._go_on(books, group)

    def _conclude(self, group: Group, verdict: Outcome) -> None:
        books = self._books
        if books is None:
            super()._conclude(group, verdict)
            return
        for loser in group.fibers.values():
            self._close(loser)
        if isinstance(group.tally, Scope) and isinstance(verdict, Returned):
            _hand_over(books, group)
        books.held[group] = verdict
        self._go_on(books, group)

    def _close(self, fiber: Fiber) -> None:
        was_live = fiber.is_live
        super()._close(fiber)
        books, group = self._books, fiber.group
        if books is None or group is None or not was_live or not isinstance(group.tally, Scope):
            return
        if group in books.held or not group.tally.owed:
            return
        around = _saga_around(fiber)
        if isinstance(around, Group) and not around.fiber.is_live:
            # The saga around it is being closed too, and undoes all of it in one order.
            _hand_over(books, group)
        else:
            books.held[group] = None
            self._go_on(books, group)

    def _abandon(self) -> list[Fiber]:
        """Forget what is owed, because the session is thrown away; the undos that run are to be closed."""
        books, self._books = self._books, None
        return [] if books is None else [*books.running]

    # --- one undo after the other ---------------------------------------------------------------------------------

    def _go_on(self, books: Books, group: Group) -> None:
        """Go on with a group that is decided, unless undos run inside it: with its own undos, else with its fiber."""
        if books.busy.get(group):
            return
        books.busy.pop(group, None)
        if group not in books.held:
            return
        tally = group.tally
        if isinstance(tally, Scope) and self._next(books, tally, group):
            return
        verdict = books.held.pop(group)
        group.fiber.group = None
        error = verdict.error if isinstance(verdict, Raised) else None
        if group.is_cancelling and not isinstance(error, Cancelled):
            # It was cancelled meanwhile.
            error = self._cancelled(error)
            verdict = Raised(error)
        if isinstance(tally, Scope):
            books.scopes.pop(tally, None)
            if error is not None:
                report_undos(error, tally.failed)
        if verdict is not None and group.fiber.is_live:
            self._resume(group.fiber, verdict)

    def _next(self, books: Books, scope: Scope, group: Group | None) -> bool:
        """Begin to undo the step of a scope that completed last; False when nothing is owed any more."""
        while scope.owed:
            owed = scope.owed.pop()
            prefix = undo_prefix("" if group is None else group.position, scope.begun)
            scope.begun += 1
            try:
                body = self._body(owed)
            except BaseException as error:
                _report(books, scope, owed, error)
                continue
            fiber = Fiber(body, prefix, group, UNDO)
            books.undone.append(owed)
            books.running[fiber] = (scope, owed)
            for one in groups_around(fiber):
                books.busy[one] = books.busy.get(one, 0) + 1
            self._resume(fiber, Returned(None))
            return True
        return False

    def _body(self, owed: Owed) -> Any:
        """Ask the user's function how the step is undone."""
        try:
            made = owed.op.fn(owed.value)
        finally:
            misuse = self._misuse()
        if not isinstance(made, Op) and not hasattr(made, "send"):
            raise OperationMisused(
                f"undo {owed.name} of {owed.op} returned {type(made).__name__}, no operation and no generator helper: "
                f"make it an activity, or return call(...)"
            )
        use(made, "undo")
        if misuse is not None:
            raise misuse.error
        return iter(made) if isinstance(made, Op) else made


def shield_of(fiber: Fiber) -> Fiber | None:
    """The undo that a fiber runs in, the outermost: a cancellation does not reach it."""
    found = fiber if fiber.index == UNDO else None
    for group in groups_around(fiber):
        if group.fiber.index == UNDO:
            found = group.fiber
    return found


def _saga_around(fiber: Fiber) -> Group | Fiber:
    """The saga that a fiber runs in; without one the root's fiber, or that of an undo."""
    while fiber.owner is not None and fiber.index != UNDO:
        if isinstance(fiber.owner.tally, Scope):
            return fiber.owner
        fiber = fiber.owner.fiber
    return fiber


def _scope_around(fiber: Fiber, books: Books) -> Scope | None:
    """The scope that the steps of a fiber are owed by."""
    around = _saga_around(fiber)
    if isinstance(around, Fiber):
        return None if around.index == UNDO else books.root
    assert isinstance(around.tally, Scope), "a saga"
    return around.tally


def _hand_over(books: Books, group: Group) -> None:
    """What a saga owes is owed by the scope around it, in the order in which the steps have completed."""
    scope = group.tally
    assert isinstance(scope, Scope), "a saga"
    outer = _scope_around(group.fiber, books)
    if outer is not None and scope.owed:
        is_in_order = not outer.owed or outer.owed[-1].number < scope.owed[0].number
        outer.owed += scope.owed
        if not is_in_order:
            outer.owed.sort(key=lambda one: one.number)
        books.scopes[outer] = None
    scope.owed = []
    books.scopes.pop(scope, None)


def _report(books: Books, scope: Scope, owed: Owed, error: BaseException) -> None:
    failed = failed_undo(owed.position, str(owed.op), owed.name, error)
    scope.failed.append(failed)
    books.failed.append(failed)
