"""Undo: what is owed once a step has succeeded, and how it is run.

`op.undo(fn)` owes `fn(result)` to the scope around the step: the nearest `saga`, else the workflow. A scope that fails,
is cancelled, or is closed because its branch has lost runs what it owes, the step that completed last first. A saga
that succeeds hands what it owes to the scope around it.

Each undo is a fiber of its own (`u.0.`, `u.1.` below its scope). They run one after the other, and only the end of the
session interrupts them. A fiber that waits for the scope, or for a group in which the scope was closed, resumes when
the undos are done. All of it follows from the entries, so a replay comes to the same undo.

`Undos` decides what is undone next. It never steps a fiber itself: it asks the interpreter to.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeVar

from durable.errors import Cancelled, OperationMisused
from durable.model.error_codec import failed_undo, report_undos
from durable.model.position import undo_prefix
from durable.model.records import FailedUndo
from durable.runner.combinators import Branch
from durable.runner.definitions import ContinueRequested, Definition
from durable.runner.fibers import Fiber, Group, groups_around
from durable.runner.loops import Course, courses_around
from durable.runner.ops import Branches, Op, Outcome, Raised, Returned, T_co, Tally, Undo, use
from durable.runner.results import ContinueAs, End, Failed

T = TypeVar("T")
# The index of a fiber that is an undo and not a branch of its group.
UNDO = -1


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


class Stepper(Protocol):
    """What undos need of the interpreter that steps the fibers."""

    is_cancelled: bool
    # How the workflow has ended.
    end: End | None

    def resume(self, fiber: Fiber, outcome: Outcome) -> None:
        """Run a fiber when those before it wait."""
        ...

    def misuse(self) -> Raised | None:
        """What code of the body has just dropped, as an error."""
        ...

    def cancelled(self) -> Cancelled:
        """A new error that tells of the cancellation."""
        ...


class Undos:
    """What one body owes, what of it is being undone, and who waits for that. Made when the first undo is owed."""

    __slots__ = ("busy", "end", "failed", "held", "number", "root", "running", "scopes", "steps", "was_cancelled")

    def __init__(self) -> None:
        self.number = 0
        self.root = Scope()
        # The scopes that owe something.
        self.scopes: dict[Scope, None] = {}
        # Undos that run, and how many of them run inside each group.
        self.running: dict[Fiber, tuple[Scope, Owed]] = {}
        self.busy: dict[Group, int] = {}
        # Groups that are decided, and the outcome for their fibers when the undos inside are done; None for a group
        # that is closed.
        self.held: dict[Group, Outcome | None] = {}
        # How the workflow ends when its undos are done, and whether it was cancelled before they began.
        self.end: End | None = None
        self.was_cancelled = False
        self.failed: list[FailedUndo] = []
        # Steps whose undo has begun. A step whose undo failed at once is not among them: it stays done.
        self.steps: list[Owed] = []

    def owe(self, fiber: Fiber, op: Undo[Any], value: Any) -> None:
        """A step has succeeded: the scope around it owes its undo. The steps of an undo are not undone."""
        scope = _scope_around(fiber, self)
        if scope is not None:
            self.number += 1
            rounds = tuple((course, course.hold()) for course in courses_around(fiber))
            scope.owed.append(Owed(self.number, f"{fiber.prefix}{fiber.count - 1}", op, value, rounds))
            self.scopes[scope] = None

    def owed(self) -> list[Owed]:
        """All that is owed, in the order in which it would be undone."""
        owed = [undo for _, undo in self.running.values()]
        owed += (undo for scope in self.scopes for undo in scope.owed)
        return sorted(owed, key=lambda undo: undo.number, reverse=True)

    def undone(self) -> list[Owed]:
        """The steps that are undone, or are being undone, the first that was done first."""
        return sorted(self.steps, key=lambda step: step.number)

    # --- the workflow ends ----------------------------------------------------------------------------------------

    def end_with(self, stepper: Stepper, end: End) -> None:
        """The body has ended. One that failed, or was cancelled, ends when what it owes is undone."""
        if isinstance(end, ContinueAs) and self.root.owed and not stepper.is_cancelled:
            end = Failed(OperationMisused(self._why_not_continue()))
        if isinstance(end, Failed) or stepper.is_cancelled:
            self.end, self.was_cancelled = end, stepper.is_cancelled
            self._unwind(stepper)
        else:
            stepper.end = end

    def _why_not_continue(self) -> str:
        owed = self.owed()
        names = ", ".join(undo.name for undo in owed[:3])
        return (
            f"continue_as while {len(owed)} undos are owed ({names}): they would be forgotten with the history; "
            f"do those steps in a child workflow, whose undos end with it"
        )

    def _unwind(self, stepper: Stepper) -> None:
        """Begin the next undo of the workflow itself. After the last one the workflow ends."""
        if self._next(stepper, self.root, None):
            return
        end = self.end
        is_cancelled_since = stepper.is_cancelled is not self.was_cancelled
        if self.failed or is_cancelled_since:
            error = end.error if isinstance(end, Failed) else stepper.cancelled()
            if is_cancelled_since:
                error = _caused(stepper.cancelled(), error)
            report_undos(error, self.failed)
            end = Failed(error)
        stepper.end = end

    def finish(self, stepper: Stepper, fiber: Fiber, outcome: Outcome | ContinueRequested) -> None:
        """An undo has ended."""
        scope, owed = self.running.pop(fiber)
        if isinstance(outcome, ContinueRequested):
            outcome = Raised(OperationMisused("continue_as inside an undo: only the workflow itself can continue"))
        if isinstance(outcome, Raised):
            # Its rounds stay held: the end of the workflow tells of it. An undo that failed at its first step has
            # undone nothing. One that came further has undone a part, so the step must not count as done.
            if fiber.count == 1:
                self.steps.remove(owed)
            self._report(scope, owed, outcome.error)
        else:
            for course, start in owed.rounds:
                course.let_go(start)
        if fiber.owner is None:
            self._unwind(stepper)
            return
        for group in groups_around(fiber):
            self.busy[group] -= 1
            self._go_on(stepper, group)

    # --- groups are decided or closed -----------------------------------------------------------------------------

    def conclude(self, stepper: Stepper, group: Group, verdict: Outcome) -> None:
        """A group is decided. Its fiber gets the verdict when the undos inside are done."""
        if isinstance(group.tally, Scope) and isinstance(verdict, Returned):
            self._hand_over(group)
        self.held[group] = verdict
        self._go_on(stepper, group)

    def closed(self, stepper: Stepper, group: Group) -> None:
        """The fiber that waits for a group was closed. If the group is a saga, what it owes is undone."""
        if not isinstance(group.tally, Scope) or group in self.held or not group.tally.owed:
            return
        around = _saga_around(group.fiber)
        if isinstance(around, Group) and not around.fiber.is_live:
            # The saga around it is being closed too, and undoes all of it in one order.
            self._hand_over(group)
        else:
            self.held[group] = None
            self._go_on(stepper, group)

    def _go_on(self, stepper: Stepper, group: Group) -> None:
        """If a group is decided and no undo runs inside it, begin its own undos, or else resume its fiber."""
        if self.busy.get(group):
            return
        self.busy.pop(group, None)
        if group not in self.held:
            return
        tally = group.tally
        if isinstance(tally, Scope) and self._next(stepper, tally, group):
            return
        verdict = self.held.pop(group)
        group.fiber.group = None
        error = verdict.error if isinstance(verdict, Raised) else None
        if group.is_cancelling and not isinstance(error, Cancelled):
            # It was cancelled meanwhile.
            error = _caused(stepper.cancelled(), error)
            verdict = Raised(error)
        if isinstance(tally, Scope):
            self.scopes.pop(tally, None)
            if error is not None:
                report_undos(error, tally.failed)
        if verdict is not None and group.fiber.is_live:
            stepper.resume(group.fiber, verdict)

    def _hand_over(self, group: Group) -> None:
        """What a saga owes is owed by the scope around it, in the order in which the steps have completed."""
        scope = group.tally
        assert isinstance(scope, Scope), "a saga"
        outer = _scope_around(group.fiber, self)
        if outer is not None and scope.owed:
            is_in_order = not outer.owed or outer.owed[-1].number < scope.owed[0].number
            outer.owed += scope.owed
            if not is_in_order:
                outer.owed.sort(key=lambda undo: undo.number)
            self.scopes[outer] = None
        scope.owed = []
        self.scopes.pop(scope, None)

    # --- one undo after the other ---------------------------------------------------------------------------------

    def _next(self, stepper: Stepper, scope: Scope, group: Group | None) -> bool:
        """Begin to undo the step of a scope that completed last; False when the scope owes nothing."""
        while scope.owed:
            owed = scope.owed.pop()
            prefix = undo_prefix("" if group is None else group.position, scope.begun)
            scope.begun += 1
            try:
                body = _body(stepper, owed)
            except BaseException as error:
                self._report(scope, owed, error)
                continue
            fiber = Fiber(body, prefix, group, UNDO)
            self.steps.append(owed)
            self.running[fiber] = (scope, owed)
            for around in groups_around(fiber):
                self.busy[around] = self.busy.get(around, 0) + 1
            stepper.resume(fiber, Returned(None))
            return True
        return False

    def _report(self, scope: Scope, owed: Owed, error: BaseException) -> None:
        failed = failed_undo(owed.position, str(owed.op), owed.name, error)
        scope.failed.append(failed)
        self.failed.append(failed)


def _body(stepper: Stepper, owed: Owed) -> Any:
    """Ask the user's function how the step is undone."""
    try:
        made = owed.op.fn(owed.value)
    finally:
        misuse = stepper.misuse()
    if not isinstance(made, Op) and not hasattr(made, "send"):
        raise OperationMisused(
            f"undo {owed.name} of {owed.op} returned {type(made).__name__}, no operation and no generator helper: "
            f"make it an activity, or return call(...)"
        )
    use(made, "undo")
    if misuse is not None:
        raise misuse.error
    return iter(made) if isinstance(made, Op) else made


def _caused(error: Cancelled, cause: BaseException | None) -> Cancelled:
    """A cancellation that came while an error was being undone does not hide it."""
    error.__cause__ = cause
    return error


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


def _scope_around(fiber: Fiber, undos: Undos) -> Scope | None:
    """The scope that the steps of a fiber are owed by."""
    around = _saga_around(fiber)
    if isinstance(around, Fiber):
        return None if around.index == UNDO else undos.root
    assert isinstance(around.tally, Scope), "a saga"
    return around.tally
