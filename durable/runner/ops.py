"""What a workflow body can ask for, as values.

An operation does nothing by itself. A body hands it to the session with `yield from op` (or `await op`), which is the
only place in durable that yields; the session sends itself back, and the answer is read from it here. Whoever iterates
an operation elsewhere, or forgets to yield it, gets a sentence that says so.
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
    """What a bare `yield op` evaluates to, for type checkers: nothing that anyone can use. Write `yield from op`."""


class Stepping(Protocol):
    """What an operation sees of the interpreter that is stepping its body."""

    announced: Op[Any] | None
    # The result of the operation that was announced last.
    answer: Any
    # Not 0 while the body is being closed.
    closing: int
    # What is wrong with operations that this step has dropped.
    dropped: list[str] | None
    # The fiber that runs.
    stepped: Any

    @property
    def session(self) -> object:
        """The session whose body it is; `ambient` knows what can be asked of it."""
        ...

    def owe(self, op: Undo[Any], value: Any) -> None:
        """A step has succeeded, and says how it is undone."""
        ...


# Whoever steps a body right now in this thread, if anybody does.
STEPPING: ContextVar[Stepping | None] = ContextVar("durable_stepping", default=None)
# The activity that runs right now in this task or thread, if any; its type belongs to the engine.
IN_ACTIVITY: ContextVar[Any] = ContextVar("durable_activity", default=None)


class Op(Unfinished, Generic[T_co]):
    """Something a workflow can `yield from` or `await`; its result is a `T_co`."""

    # Whether it was handed to somebody: a session, a combinator, an engine.
    _used = False
    # What to do instead inside an activity.
    instead: ClassVar[str] = PLAIN

    def __iter__(self) -> Generator[Op[Any], UseYieldFrom, T_co]:
        session = STEPPING.get()
        self._used = True
        if session is None:
            raise OperationMisused(_outside(self))
        if session.closing:
            # The body is being closed: an operation in its `finally` must not run. One that swallows this as well is
            # left to yield, which Python reports as ignoring GeneratorExit, so that closing ends in any case.
            session.closing += 1
            if session.closing == 2:
                raise SessionClosed
        session.announced = self
        sent: object = yield self
        if sent is not session:
            session.announced = None
            problem = f"{caller()}: {self} is an operation, not a sequence: write 'yield from' (or 'await') before it"
            note(session, None, problem)
            raise OperationMisused(problem)
        result: T_co = session.answer
        return result

    __await__ = __iter__

    def within(self, limit: timedelta | float) -> Within[T_co]:
        """This operation, but `TimedOut` is raised if it takes longer than the limit."""
        return Within(self, limit)

    def or_default(self, default: S) -> OrDefault[T_co | S]:
        """This operation, but with the default as its result where `TimedOut` or `PauseExpired` would be raised."""
        return OrDefault(self, default)

    def undo(
        self, fn: Callable[[T_co], Op[Any] | Generator[Op[Any], UseYieldFrom, Any] | Coroutine[Any, Any, Any]]
    ) -> Undo[T_co]:
        """This operation; once it has succeeded, `fn(result)` is owed and runs if the saga or workflow around it fails.

        `fn` is an activity, or any function of the result that returns an operation or a helper with many of them.
        """
        return Undo(self, fn)

    def __del__(self) -> None:
        # First, because nearly all are used and every operation comes by here.
        if self._used:
            return
        report(STEPPING.get(), IN_ACTIVITY.get(), self, FORGOTTEN)

    def __eq__(self, other: object) -> bool:
        # Containers compare operations with one another: that is by identity, as everywhere.
        if isinstance(other, Op) or (STEPPING.get() is None and IN_ACTIVITY.get() is None):
            return NotImplemented
        raise self._taken_for_result(f"it was compared with {type(other).__name__}")

    __hash__ = object.__hash__

    if TYPE_CHECKING:
        # Type checkers report a truth test of what cannot be false, and an order of what has none.
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
        # asyncio asks whatever it is given whether it is a future; this is the first that it does.
        raise self._taken_for_result("it was given to asyncio, which cannot run it (durable has its own gather)")

    @property
    def remedy(self) -> str:
        """What to do instead of storing it."""
        is_in_activity = STEPPING.get() is None and IN_ACTIVITY.get() is not None
        fix = self.instead if is_in_activity else "write 'yield from' (or 'await') before it, in a workflow"
        return f"{self!s} is an operation and not its result: {fix}"

    def _taken_for_result(self, how: str) -> OperationMisused:
        self._used = True
        session, activity = STEPPING.get(), IN_ACTIVITY.get()
        if session is not None:
            fix = "write 'yield from' (or 'await') before it to get its result"
        elif activity is not None:
            fix = f"inside an activity {self.instead}"
        else:
            fix = "only a workflow gets its result, with 'yield from' (or 'await')"
        problem = f"{self!s} is an operation and not its result, but {how}: {fix} ({caller()})"
        if session is not None or activity is not None:
            note(session, activity, problem)
        return OperationMisused(problem)

    def __repr__(self) -> str:
        return str(self)


def use(op: object, taker: str) -> Any:
    """Mark an operation as handed over; anything that is no branch is refused with the taker's name."""
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
    """File, line and function of the code outside durable (and asyncio) that has called us."""
    frame = sys._getframe(1)
    while str(frame.f_globals.get("__name__")).partition(".")[0] in _NOT_CALLERS and frame.f_back is not None:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


class Leaf(Op[T_co]):
    """An operation that waits for one recorded entry."""

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
        # pending when the wait begins must win even against a limit of zero.
        self.eager = eager

    def __str__(self) -> str:
        return "sleep"


class Branches(Op[T_co]):
    """Several operations or helpers at once. A `tally` decides, branch by branch, when the whole is finished."""

    verb: ClassVar[str]
    # How many of them may be open at a time; None: all.
    limit: int | None = None

    def __init__(self, branches: tuple[Any, ...]) -> None:
        self.branches = tuple(use(branch, self.verb) for branch in branches)

    def each(self) -> Iterator[Any]:
        """The branches, one after the other, each when it is to be opened."""
        return iter(self.branches)

    def labels(self) -> Sequence[str]:
        """What stands for each branch in positions; nothing where that is its number."""
        return ()

    def tally(self) -> Tally:
        """Fresh bookkeeping for one run of this operation."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.verb


class Returned(Generic[T_co]):
    """It ended with a value."""

    # Plain and slotted, here and below: every step makes one.
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
    """It ended with an error."""

    __slots__ = ("error",)
    __match_args__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error

    @property
    def thrown(self) -> BaseException:
        """What is thrown into a body that waits for this."""
        return self.error

    def __eq__(self, other: object) -> bool:
        return type(other) is Raised and self.error == other.error

    def __hash__(self) -> int:
        return hash((Raised, self.error))

    def __repr__(self) -> str:
        return f"Raised({self.error!r})"


# How a branch or a body has ended.
Outcome: TypeAlias = Returned[Any] | Raised


class Tally(Protocol):
    """Decides when several branches are finished, and how."""

    def empty(self) -> Outcome:
        """The outcome without any branch."""
        ...

    def finished(self, index: int, outcome: Outcome) -> Outcome | None:
        """Branch `index` has ended: the outcome of the whole, or None while it goes on."""
        ...


class Within(Branches[T_co]):
    """An operation against a deadline."""

    verb = "within"

    def __init__(self, op: Op[T_co], limit: timedelta | float) -> None:
        # First: an operation whose limit is refused was not forgotten.
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
        """The operation's own end, or `TimedOut` when the timer is first."""
        if index == 0 or isinstance(outcome, Raised):
            return outcome
        return Raised(TimedOut(str(self.op), self.seconds))

    def __str__(self) -> str:
        return f"{self.op} within {self.seconds:g} s"


class OrDefault(Op[T_co]):
    """An operation whose timeout is a value instead of an error. It takes no position of its own."""

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
    """An operation and what undoes it. It takes no position of its own: adding an undo changes no history."""

    def __init__(self, op: Op[T_co], fn: Callable[[T_co], Any]) -> None:
        self.op: Op[T_co] = use(op, "undo")
        if not callable(fn):
            # What is refused was not forgotten.
            self._used = True
            if isinstance(fn, Op):
                fn._used = True
            problem = f"takes an activity or a function of the result, such as 'lambda result: ...', not {fn!r}"
            raise WrongType(f"{op}.undo", problem)
        self.fn = fn

    def __iter__(self) -> Generator[Op[Any], UseYieldFrom, T_co]:
        self._used = True
        result = yield from self.op
        # Only whoever has announced the operation gets here, inside a body.
        cast("Stepping", STEPPING.get()).owe(self, result)
        return result

    __await__ = __iter__

    def __str__(self) -> str:
        return str(self.op)


def sleep(duration: timedelta | float) -> Op[datetime]:
    """Wait for a duration; the result is the instant at which it ended. Zero never suspends."""
    return Timer(duration=from_duration("sleep", duration))


def sleep_until(instant: datetime) -> Op[datetime]:
    """Wait until an aware datetime; the result is the instant at which it ended. The past never suspends."""
    return Timer(until=from_datetime("sleep_until", instant))
