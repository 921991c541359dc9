"""Operations: what a workflow body can ask for, as values.

An operation does nothing by itself. `yield from op` (or `await op`) runs `Op.__iter__`, the only place in durable that
yields: it announces the operation to the interpreter, yields, and reads the answer from the interpreter. Using an
operation in any other way (as a value, in an activity, or not at all) raises `OperationMisused` with the fix.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar, cast

from durable.errors import OperationMisused, PauseExpired, SessionClosed, TimedOut, WrongType
from durable.model.clock import SECOND, from_datetime, from_duration
from durable.model.records import EntryKind
from durable.model.unfinished import Unfinished
from durable.runner.forgotten import PLAIN, note, report

_NOT_CALLERS = {"durable", "asyncio"}
FORGOTTEN = "but never yielded: did you forget 'yield from' (or 'await')?"
T_co = TypeVar("T_co", covariant=True)
S = TypeVar("S")


class UseYieldFrom:
    """The type of a bare `yield op`, for type checkers. It is useless on purpose: write `yield from op`."""


class Stepping(Protocol):
    """The interpreter, as an operation sees it while its body is being stepped."""

    announced: Op[Any] | None
    # The result of the operation that was announced last.
    answer: Any
    # 0, or while the body is being closed 1 plus the number of operations that it tried to run.
    closing: int
    # Messages about operations that this step has dropped or misused.
    dropped: list[str] | None
    # The fiber that runs.
    stepped: Any

    @property
    def session(self) -> object:
        """The session of the body. Its type is `Ambient`, which this module cannot import."""
        ...

    def owe(self, op: Undo[Any], value: Any) -> None:
        """Note the undo of a step that has succeeded."""
        ...


# The interpreter that is stepping a body in this thread, if any.
STEPPING: ContextVar[Stepping | None] = ContextVar("durable_stepping", default=None)
# The activity that is running in this task or thread, if any. Its type belongs to the engine.
IN_ACTIVITY: ContextVar[Any] = ContextVar("durable_activity", default=None)


class Op(Unfinished, Generic[T_co]):
    """Something a workflow can `yield from` or `await`; its result is a `T_co`."""

    # Whether it was handed over to a session, a combinator or an engine.
    _used = False
    # The advice for its use inside an activity.
    instead: ClassVar[str] = PLAIN

    def __iter__(self) -> Generator[Op[Any], UseYieldFrom, T_co]:
        interpreter = STEPPING.get()
        self._used = True
        if interpreter is None:
            raise OperationMisused(_outside(self))
        if interpreter.closing:
            # Operations in the `finally` of a body that is being closed must not run. If the body swallows this error,
            # its next operation does yield: Python reports that as ignoring GeneratorExit, and closing ends.
            interpreter.closing += 1
            if interpreter.closing == 2:
                raise SessionClosed
        interpreter.announced = self
        sent: object = yield self
        if sent is not interpreter:
            interpreter.announced = None
            problem = f"{caller()}: {self} is an operation, not a sequence: write 'yield from' (or 'await') before it"
            note(interpreter, None, problem)
            raise OperationMisused(problem)
        result: T_co = interpreter.answer
        return result

    __await__ = __iter__

    def within(self, limit: timedelta | float) -> Within[T_co]:
        """This operation with a time limit: raises `TimedOut` if it takes longer."""
        return Within(self, limit)

    def or_default(self, default: S) -> OrDefault[T_co | S]:
        """This operation, but with `default` as its result if it raises `TimedOut` or `PauseExpired`."""
        return OrDefault(self, default)

    def undo(
        self, fn: Callable[[T_co], Op[Any] | Generator[Op[Any], UseYieldFrom, Any] | Coroutine[Any, Any, Any]]
    ) -> Undo[T_co]:
        """This operation with an undo: after it succeeds, `fn(result)` runs if the saga or workflow around it fails.

        `fn` is an activity, or any function of the result that returns an operation or a helper.
        """
        return Undo(self, fn)

    def __del__(self) -> None:
        # The common case first: every operation passes here, and nearly all are used.
        if self._used:
            return
        report(STEPPING.get(), IN_ACTIVITY.get(), self, FORGOTTEN)

    def __eq__(self, other: object) -> bool:
        # Containers compare operations with each other, by identity. Comparing one with another value is a mistake.
        if isinstance(other, Op) or (STEPPING.get() is None and IN_ACTIVITY.get() is None):
            return NotImplemented
        raise self._taken_for_result(f"it was compared with {type(other).__name__}")

    __hash__ = object.__hash__

    if TYPE_CHECKING:
        # Hidden, so that type checkers report a truth test or an ordering of an operation.
        pass
    else:

        def __bool__(self):
            raise self._taken_for_result("its truth was tested")

        def __lt__(self, other):
            raise self._taken_for_result(f"it was compared with {type(other).__name__}")

        __le__ = __gt__ = __ge__ = __lt__

    def __format__(self, spec: str) -> str:
        is_ours = str(sys._getframe(1).f_globals.get("__name__")).partition(".")[0] == "durable"
        if is_ours or (STEPPING.get() is None and IN_ACTIVITY.get() is None):
            return format(str(self), spec)
        raise self._taken_for_result("it was formatted as text ('!r' shows the operation itself)")

    @property
    def _asyncio_future_blocking(self) -> bool:
        # asyncio reads this attribute first, to find out whether an object is a future.
        raise self._taken_for_result("it was given to asyncio, which cannot run it (durable has its own gather)")

    @property
    def remedy(self) -> str:
        """The message for code that stores the operation instead of its result."""
        is_in_activity = STEPPING.get() is None and IN_ACTIVITY.get() is not None
        fix = self.instead if is_in_activity else "write 'yield from' (or 'await') before it, in a workflow"
        return f"{self!s} is an operation and not its result: {fix}"

    def _taken_for_result(self, how: str) -> OperationMisused:
        self._used = True
        interpreter, activity = STEPPING.get(), IN_ACTIVITY.get()
        if interpreter is not None:
            fix = "write 'yield from' (or 'await') before it to get its result"
        elif activity is not None:
            fix = f"inside an activity {self.instead}"
        else:
            fix = "only a workflow gets its result, with 'yield from' (or 'await')"
        problem = f"{self!s} is an operation and not its result, but {how}: {fix} ({caller()})"
        if interpreter is not None or activity is not None:
            note(interpreter, activity, problem)
        return OperationMisused(problem)

    def __repr__(self) -> str:
        return str(self)


def use(op: object, taker: str) -> Any:
    """Mark an operation as handed over. Raises `OperationMisused` for anything that cannot be a branch of `taker`."""
    if isinstance(op, Op):
        op._used = True
        return op
    if hasattr(op, "send") and hasattr(op, "throw"):
        return op
    raise OperationMisused(f"{taker} takes operations or generator helpers, not {type(op).__name__}")


def _outside(op: Op[Any]) -> str:
    if IN_ACTIVITY.get() is not None:
        return f"{op} is an operation for workflows and cannot run inside an activity: {op.instead} ({caller()})"
    return f"{op} is an operation: only a workflow can run it, with 'yield from' (or 'await') ({caller()})"


def caller() -> str:
    """File, line and function of the innermost caller outside durable and asyncio."""
    frame = sys._getframe(1)
    while str(frame.f_globals.get("__name__")).partition(".")[0] in _NOT_CALLERS and frame.f_back is not None:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


class Leaf(Op[T_co]):
    """An operation that waits for one recorded entry. `kind` selects its row in `kinds`; `name` is in the history."""

    kind: ClassVar[EntryKind]
    name: str


class Timer(Leaf[datetime]):
    """Wait until an instant, or for a duration from now."""

    kind = EntryKind.TIMER
    name = "timer"

    def __init__(self, duration: int | None = None, until: int | None = None, *, eager: bool = True) -> None:
        self.duration = duration
        self.until = until
        # An eager timer that is due already never suspends. The limit of `within` is not eager: an event that is
        # pending when the wait opens must win even against a limit of zero.
        self.eager = eager

    def __str__(self) -> str:
        return "sleep"


class Branches(Op[T_co]):
    """Several operations or helpers at once. A `tally` decides, as each branch ends, whether the whole is finished."""

    verb: ClassVar[str]
    # The number of branches that may be open at a time; None for all.
    limit: int | None = None

    def __init__(self, branches: tuple[Any, ...]) -> None:
        self.branches = tuple(use(branch, self.verb) for branch in branches)

    def each(self) -> Iterator[Any]:
        """The branches, each made only when it is to be opened."""
        return iter(self.branches)

    def labels(self) -> Sequence[str]:
        """The part of a position that identifies each branch; empty if branches use their numbers."""
        return ()

    def tally(self) -> Tally:
        """New bookkeeping for one run of this operation."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.verb


class Returned(Generic[T_co]):
    """The outcome of a branch or a body that ended with a value."""

    # Plain and slotted, as `Raised` is: every step creates one.
    __slots__ = ("value",)
    __match_args__ = ("value",)

    def __init__(self, value: T_co) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is Returned and self.value == other.value

    def __hash__(self) -> int:
        return hash((Returned, self.value))

    def __repr__(self) -> str:
        return f"Returned({self.value!r})"


class Raised:
    """The outcome of a branch or a body that ended with an error."""

    __slots__ = ("error",)
    __match_args__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error

    @property
    def thrown(self) -> BaseException:
        """The exception to throw into a body that waits for this."""
        return self.error

    def __eq__(self, other: object) -> bool:
        return type(other) is Raised and self.error == other.error

    def __hash__(self) -> int:
        return hash((Raised, self.error))

    def __repr__(self) -> str:
        return f"Raised({self.error!r})"


# How a branch or a body ended.
Outcome: TypeAlias = Returned[Any] | Raised


class Tally(Protocol):
    """Decides when a group of branches is finished, and with which outcome."""

    def empty(self) -> Outcome:
        """The outcome of a group without branches."""
        ...

    def finished(self, index: int, outcome: Outcome) -> Outcome | None:
        """Called when branch `index` has ended. Returns the outcome of the group, or None while it is undecided."""
        ...


class Within(Branches[T_co]):
    """An operation with a deadline: a race between the operation (branch 0) and a timer (branch 1)."""

    verb = "within"

    def __init__(self, op: Op[T_co], limit: timedelta | float) -> None:
        # Marked before the limit is checked: an operation with a refused limit is not a forgotten one.
        use(op, "within")
        micros = from_duration(f"{op}.within", limit)
        super().__init__((op, Timer(micros, eager=False)))
        self.op = op
        self.seconds = micros / SECOND

    def tally(self) -> Tally:
        return self

    def empty(self) -> Outcome:
        raise AssertionError("there are always two branches")

    def finished(self, index: int, outcome: Outcome) -> Outcome | None:
        """The outcome of the operation, or `TimedOut` if the timer fires first."""
        if index == 0 or isinstance(outcome, Raised):
            return outcome
        return Raised(TimedOut(str(self.op), self.seconds))

    def __str__(self) -> str:
        return f"{self.op} within {self.seconds:g} s"


class OrDefault(Op[T_co]):
    """An operation with a value instead of a timeout error. It uses no position, so adding it changes no history."""

    def __init__(self, op: Op[Any], default: Any) -> None:
        self.op: Op[Any] = use(op, "or_default")
        self.default = default

    def __iter__(self) -> Generator[Op[Any], UseYieldFrom, T_co]:
        self._used = True
        try:
            result: T_co = yield from self.op
        except (TimedOut, PauseExpired):
            result = self.default
        return result

    __await__ = __iter__

    def __str__(self) -> str:
        return f"{self.op} or default"


class Undo(Op[T_co]):
    """An operation and its undo. It uses no position, so adding an undo changes no history."""

    def __init__(self, op: Op[T_co], fn: Callable[[T_co], Any]) -> None:
        self.op: Op[T_co] = use(op, "undo")
        if not callable(fn):
            # A refused operation is not a forgotten one.
            self._used = True
            if isinstance(fn, Op):
                fn._used = True
            problem = f"takes an activity or a function of the result, such as 'lambda result: ...', not {fn!r}"
            raise WrongType(f"{op}.undo", problem)
        self.fn = fn

    def __iter__(self) -> Generator[Op[Any], UseYieldFrom, T_co]:
        self._used = True
        result = yield from self.op
        # Never None: the operation above has succeeded, so a body is being stepped.
        cast("Stepping", STEPPING.get()).owe(self, result)
        return result

    __await__ = __iter__

    def __str__(self) -> str:
        return str(self.op)


def sleep(duration: timedelta | float) -> Op[datetime]:
    """Wait for a duration. The result is the recorded instant of its end. A duration of zero never suspends."""
    return Timer(duration=from_duration("sleep", duration))


def sleep_until(instant: datetime) -> Op[datetime]:
    """Wait until an aware datetime. The result is the recorded instant of its end. A past instant never suspends."""
    return Timer(until=from_datetime("sleep_until", instant))
