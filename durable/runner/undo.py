"""Undos and sagas: the undos that succeeded steps owe, and how they run.

After the step of `op.undo(fn)` succeeds, the scope around it owes `fn(result)`. The scope is the nearest `saga`, else
the workflow. What happens to the undos of a scope depends on its end:

- It fails, is cancelled, or is closed because its branch has lost: its undos run, the last completed step first.
- A saga succeeds: its undos pass to the scope around it.
- The workflow succeeds: its undos are dropped.

Each undo is a fiber (`u.0.`, `u.1.` below its scope). The undos of a scope run one after the other, and only the end of
the session interrupts them. The fiber that waits for the scope, or for a group in which the scope was closed, resumes
when the undos are done. All of this follows from the entries, so a replay runs the same undos.

`Undos` decides which undo runs next. It never steps a fiber; it asks the interpreter (`Stepper`) to. The interpreter
calls `owe` after a step, `conclude` and `closed` for groups, `finish` for an undo, and `end_with` for the body.
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
    """Run a helper. If it fails, its completed steps are undone before the error is raised.

    If it succeeds, its undos pass to the saga or workflow around it.
    """
    return Saga((body,))


class Owed(NamedTuple):
    """One owed undo. `number` counts the steps of the workflow in the order in which they completed."""

    number: int
    # The position of the step.
    position: str
    op: Undo[Any]
    value: Any
    # The rounds of loops that are held for it.
    rounds: tuple[tuple[Course, int], ...]

    @property
    def name(self) -> str:
        """The name of the function that undoes the step, for people."""
        fn: Any = self.op.fn
        if isinstance(fn, Definition):
            return fn.name
        return str(getattr(fn, "__qualname__", type(fn).__name__)).rpartition("<locals>.")[2]


class Scope:
    """The undos that a saga or the workflow owes. For a saga it is also the tally: the saga ends as its helper does."""

    __slots__ = ("begun", "failed", "owed")

    def __init__(self) -> None:
        self.owed: list[Owed] = []
        # The number of undos begun, which is also the number of the next one, and the undos that have failed.
        self.begun = 0
        self.failed: list[FailedUndo] = []

    def empty(self) -> Outcome:
        """Never called: there is always one helper."""
        raise AssertionError("a saga has a helper")

    def finished(self, index: int, outcome: Outcome) -> Outcome:
        """The outcome of the helper."""
        return outcome


class Stepper(Protocol):
    """The interpreter, as undos see it."""

    is_cancelled: bool
    # Set when the workflow has ended.
    end: End | None

    def resume(self, fiber: Fiber, outcome: Outcome) -> None:
        """Queue a fiber to run."""
        ...

    def misuse(self) -> Raised | None:
        """The error for operations that code of the body has just dropped, if any."""
        ...

    def cancelled(self) -> Cancelled:
        """A new error of the cancellation."""
        ...


class Undos:
    """The undos of one body: owed, running and done, and the groups and the end that wait for them."""

    __slots__ = ("busy", "end", "failed", "held", "number", "root", "running", "scopes", "steps", "was_cancelled")

    def __init__(self) -> None:
        self.number = 0
        self.root = Scope()
        # The scopes that owe an undo, in insertion order.
        self.scopes: dict[Scope, None] = {}
        # The running undos, and the number of them inside each group.
        self.running: dict[Fiber, tuple[Scope, Owed]] = {}
        self.busy: dict[Group, int] = {}
        # Decided groups that wait for the undos inside them, with the outcome for their fiber; None for a closed group.
        self.held: dict[Group, Outcome | None] = {}
        # The end of the workflow once its undos are done, and whether it was cancelled before they began.
        self.end: End | None = None
        self.was_cancelled = False
        self.failed: list[FailedUndo] = []
        # Steps whose undo has begun. If an undo fails at its first step, its step is removed: it still counts as done.
        self.steps: list[Owed] = []

    def owe(self, fiber: Fiber, op: Undo[Any], value: Any) -> None:
        """Add the undo of a step that has succeeded to the scope around it. Steps inside an undo are never undone."""
        scope = _scope_around(fiber, self)
        if scope is not None:
            self.number += 1
            rounds = tuple((course, course.hold()) for course in courses_around(fiber))
            scope.owed.append(Owed(self.number, f"{fiber.prefix}{fiber.count - 1}", op, value, rounds))
            self.scopes[scope] = None

    def owed(self) -> list[Owed]:
        """All owed undos, running ones included, in the order in which they would run."""
        owed = [undo for _, undo in self.running.values()]
        owed += (undo for scope in self.scopes for undo in scope.owed)
        return sorted(owed, key=lambda undo: undo.number, reverse=True)

    def undone(self) -> list[Owed]:
        """The steps whose undo is done or running, in the order in which the steps completed."""
        return sorted(self.steps, key=lambda step: step.number)

    # --- the workflow ends ----------------------------------------------------------------------------------------

    def end_with(self, stepper: Stepper, end: End) -> None:
        """Handle the end of the body. If it failed or was cancelled, the workflow ends after its undos."""
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
        """Start the next undo of the workflow itself. After the last one, end the workflow."""
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
        """Handle the end of an undo, and start what has waited for it."""
        scope, owed = self.running.pop(fiber)
        if isinstance(outcome, ContinueRequested):
            outcome = Raised(OperationMisused("continue_as inside an undo: only the workflow itself can continue"))
        if isinstance(outcome, Raised):
            # Its rounds stay held, because the end of the workflow reports the failure. An undo that failed at its
            # first step has undone nothing. One that got further has undone a part, so its step must not count as done.
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
        """Hold the verdict of a decided group until its undos are done. A successful saga passes its undos on first."""
        if isinstance(group.tally, Scope) and isinstance(verdict, Returned):
            self._hand_over(group)
        self.held[group] = verdict
        self._go_on(stepper, group)

    def closed(self, stepper: Stepper, group: Group) -> None:
        """Handle a group whose waiting fiber was closed. If it is a saga that owes undos, run them."""
        if not isinstance(group.tally, Scope) or group in self.held or not group.tally.owed:
            return
        around = _saga_around(group.fiber)
        if isinstance(around, Group) and not around.fiber.is_live:
            # The saga around it is being closed too, and runs all the undos in one order.
            self._hand_over(group)
        else:
            self.held[group] = None
            self._go_on(stepper, group)

    def _go_on(self, stepper: Stepper, group: Group) -> None:
        """If a group is decided and no undo runs inside it, start its next undo, or without one resume its fiber."""
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
            # The workflow was cancelled while the undos ran.
            error = _caused(stepper.cancelled(), error)
            verdict = Raised(error)
        if isinstance(tally, Scope):
            self.scopes.pop(tally, None)
            if error is not None:
                report_undos(error, tally.failed)
        if verdict is not None and group.fiber.is_live:
            stepper.resume(group.fiber, verdict)

    def _hand_over(self, group: Group) -> None:
        """Pass the undos of a saga to the scope around it, sorted by the completion of their steps."""
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
        """Start the undo of the scope's last completed step. Returns False if the scope owes nothing more."""
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
    """Call the user's function for the body of an undo. Raises `OperationMisused`, and any error of the function."""
    try:
        made = owed.op.fn(owed.value)
    finally:
        misuse = stepper.misuse()
    if not isinstance(made, Op) and not hasattr(made, "send"):
        raise OperationMisused(
            f"undo {owed.name} of {owed.op} returned {type(made).__name__}, not an operation or a generator helper: "
            f"make it an activity, or return call(...)"
        )
    use(made, "undo")
    if misuse is not None:
        raise misuse.error
    return iter(made) if isinstance(made, Op) else made


def _caused(error: Cancelled, cause: BaseException | None) -> Cancelled:
    """Attach a cause to a cancellation, so that it does not hide the error that was being undone."""
    error.__cause__ = cause
    return error


def shield_of(fiber: Fiber) -> Fiber | None:
    """The outermost undo that a fiber runs in, or None. A cancellation does not reach the fibers inside an undo."""
    shield = fiber if fiber.index == UNDO else None
    for group in groups_around(fiber):
        if group.fiber.index == UNDO:
            shield = group.fiber
    return shield


def _saga_around(fiber: Fiber) -> Group | Fiber:
    """The innermost saga that a fiber runs in; without one, the fiber of the body or of the undo around it."""
    while fiber.owner is not None and fiber.index != UNDO:
        if isinstance(fiber.owner.tally, Scope):
            return fiber.owner
        fiber = fiber.owner.fiber
    return fiber


def _scope_around(fiber: Fiber, undos: Undos) -> Scope | None:
    """The scope that owes the undos of a fiber's steps; None inside an undo."""
    around = _saga_around(fiber)
    if isinstance(around, Fiber):
        return None if around.index == UNDO else undos.root
    assert isinstance(around.tally, Scope), "a saga"
    return around.tally
