"""`loop`: runs a helper round after round, and records its state between rounds.

Rounds are branches, one open at a time: the steps of round 3 of a loop at 4 are `4.3.0, 4.3.1`. The life of a round:

1. `Rounds.open` starts the helper with the current state.
2. `Course.finished` receives its result. `Break` ends the loop. `Continue` sets the state of the next round.
3. If the round has received any entry, the new state is recorded first, as operation 0 of the next round. A round
   without entries needs no record: a replay runs it again and gets the same state.
4. Once the state is recorded (`Course.begin`), a replay starts from there, and older rounds are trimmed from the
   history.

A round that owes undos is needed until they are done, because only its replay can rebuild them. While there is such a
round, a replay starts with the first one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Never, Protocol, TypeVar, overload

import attrs

from durable.errors import CodecError, InvalidValue, OperationMisused, WrongType
from durable.model.codec import Codec, Coder
from durable.model.position import branch_prefix
from durable.model.records import EntryKind, EntryStatus, HistoryEntry
from durable.runner.ambient import Ambient
from durable.runner.combinators import Branch, failing
from durable.runner.draws import Draws
from durable.runner.fibers import Fiber, Group, WaitCondition, groups_around
from durable.runner.ops import Branches, Leaf, Op, Outcome, Raised, Returned, T_co, use
from durable.runner.past import PastRounds, Round, RoundState

R = TypeVar("R")
S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
# The number of finished rounds that stay in the history for people to read.
KEEP = 10


@attrs.frozen
class Continue(Generic[S_co]):
    """Returned by the body of a loop to run another round with this state."""

    state: S_co


@attrs.frozen
class Break(Generic[T_co]):
    """Returned by the body of a loop to end it with this result."""

    value: T_co


# Protocols, not `Callable`: mypy then infers the type of an empty first state, as in `loop(body, [])`, from the body.
class EndlessBody(Protocol[S]):
    """The body of a loop without `Break`: it ends only by an error or a cancellation."""

    def __call__(self, state: S, /) -> Branch[Continue[S]]:
        """One round."""
        ...


class Body(Protocol[S, T_co]):
    """The body of a loop that can end with a result."""

    def __call__(self, state: S, /) -> Branch[Continue[S] | Break[T_co]]:
        """One round."""
        ...


class Loop(Branches[T_co]):
    """The operation: a helper, its first state, and the number of finished rounds to keep in the history."""

    verb = "loop"
    limit = 1

    def __init__(self, body: Callable[[Any], Any], state: Any, keep: int) -> None:
        super().__init__(())
        self.body = body
        self.state = state
        self.keep = keep

    def coder(self, codec: Codec) -> Coder:
        """The coder of the state: from the annotation of the body's parameter, else from the type of the first state.

        Raises `CodecError`.
        """
        where = f"loop {getattr(self.body, '__name__', type(self.body).__name__)}"
        annotated = codec.function(self.body, where).first
        return codec.coder(type(self.state), f"{where}: state") if annotated is None else annotated


class LoopState(Leaf[Any]):
    """The record of a state: the first operation of the round that begins with it."""

    kind = EntryKind.LOOP
    name = "state"

    def __init__(self, coder: Coder, text: str) -> None:
        self.coder = coder
        # The JSON to record; empty on a replay, where it is recorded already.
        self.text = text

    def prepare(self, wait: WaitCondition, session: Ambient) -> None:
        """Hand over the state, which is packed already."""
        wait.input = self.text

    def read(self, entry: HistoryEntry, codec: Codec) -> Any:
        """The recorded state. Raises `CodecError`."""
        return RoundState.read(entry.outcome, self.coder)

    def __str__(self) -> str:
        return "state of a loop"


class Course:
    """The progress of one loop: its round, its state, and the entries that its rounds still need. Also its tally.

    `note` and `begin` count entries, so that `begin` can say which ones to trim. `hold` and `let_go` count undos.
    """

    def __init__(self, op: Loop[Any], codec: Codec, past: PastRounds | None) -> None:
        self.op = op
        self.coder = op.coder(codec)
        self.state = self.coder.pack(op.state)[1]
        self.round = 0
        # The draws of this round.
        self.draws = Draws()
        # The state to record before the next round, if any, and whether the present round began with a recorded state.
        self.recording: str | None = None
        self.is_recorded = False
        # Whether this round has received any entry.
        self.is_touched = False
        # The number of owed undos by the start of their round, the earliest first. Such rounds are needed after their
        # end.
        self.owing: dict[int, int] = {}
        # The rounds in the history; the last one is running.
        self.rounds: deque[Round] = deque()
        if past is not None and past.since:
            self.round, self.recording = past.since, ""
            self.rounds.extend(past.rounds)
        else:
            self.rounds.append(Round(0, set()))

    def empty(self) -> Outcome:
        """Never called: there is always a first round."""
        raise AssertionError("a loop has a round")

    def finished(self, index: int, outcome: Outcome) -> Outcome | None:
        """A round, or the record of its state, has ended. Returns the outcome of the loop, or None if it continues."""
        if isinstance(outcome, Raised):
            return outcome
        if self.recording is not None:
            self.recording, self.is_recorded, self.state = None, True, outcome.value
            return None
        match outcome.value:
            case Break(value):
                return Returned(value)
            case Continue(state):
                return self._go_on(state)
            case unexpected:
                got = type(unexpected).__name__
                problem = f"the body of a loop must return Continue(state) or Break(value), not {got}"
                return Raised(OperationMisused(problem))

    def _go_on(self, state: Any) -> Raised | None:
        try:
            text, self.state = self.coder.pack(state)
        except CodecError as error:
            return Raised(error)
        self.round += 1
        self.draws.clear()
        self.is_recorded = False
        # A round without entries ends the same way in every replay, so its state need not be recorded.
        if self.is_touched:
            self.is_touched, self.recording = False, RoundState.text(next(iter(self.owing), self.round), text)
        return None

    # --- the entries of the rounds --------------------------------------------------------------------------------

    def note(self, entries: Iterable[int]) -> None:
        """The running round has received these entries."""
        self.is_touched = True
        self.rounds[-1].entries.update(entries)

    def begin(self, entry: int) -> set[int]:
        """The state of the next round was recorded as this entry. Returns the entries that may be trimmed."""
        self.rounds.append(Round(self.round, {entry}))
        first = min(self.round - self.op.keep, next(iter(self.owing), self.round))
        trimmed: set[int] = set()
        while len(self.rounds) > 1 and self.rounds[1].start <= first:
            trimmed |= self.rounds.popleft().entries
        return trimmed

    def forget(self, entries: set[int]) -> None:
        """A loop inside the running round has trimmed these entries."""
        self.rounds[-1].entries.difference_update(entries)

    def hold(self) -> int:
        """The running round owes one more undo, so its entries are needed. Returns its start, to pass to `let_go`."""
        start = self.rounds[-1].start
        self.owing[start] = self.owing.get(start, 0) + 1
        return start

    def let_go(self, start: int) -> None:
        """One undo that the round owed is done."""
        self.owing[start] -= 1
        if not self.owing[start]:
            del self.owing[start]


class Rounds(Group):
    """The group of a loop: one branch at a time, with the number of its round. `Course` is its tally."""

    __slots__ = ("course",)

    def __init__(self, course: Course, fiber: Fiber, position: str) -> None:
        super().__init__(course, iter(()), fiber, position)
        self.course = course

    def open(self, limit: int | None) -> Iterator[Fiber]:
        """Open the record of the next state if one is due, else the next round. Both use the number of the round."""
        course = self.course
        number = self.count = course.round
        fiber = Fiber(None, branch_prefix(self.position, number), self, number)
        if course.recording is not None:
            fiber.body = iter(LoopState(course.coder, course.recording))
        else:
            fiber.count = int(course.is_recorded)
            fiber.body = _body(course)
        self.fibers[number] = fiber
        yield fiber


def _body(course: Course) -> Any:
    """The body of the next round, or one that fails if the helper cannot be made."""
    try:
        made = use(course.op.body(course.state), "loop")
    except BaseException as error:
        return failing(error)
    return iter(made) if isinstance(made, Op) else made


def rounds_of(op: Loop[Any], fiber: Fiber, position: str, session: Ambient) -> Rounds:
    """The group of a loop. It starts with round 0, or on a replay with the round of the last recorded state.

    Raises `CodecError` for its state, and any error that reading the signature of its body raises.
    """
    past = session.past.loops.get(position)
    session.has_loop = True
    # Rounds that a replay skips may have spawned children.
    session.has_spawned = session.has_spawned or past is not None
    group = Rounds(Course(op, session.codec, past), fiber, position)
    for skipped in past.rounds if past is not None else ():
        # The entries of skipped rounds also belong to the rounds of outer loops, which trim them later.
        for course in courses_around(fiber):
            course.note(skipped.entries)
    return group


def courses_around(fiber: Fiber) -> list[Course]:
    """The loops that a fiber runs in, the innermost first."""
    return [group.course for group in groups_around(fiber) if isinstance(group, Rounds)]


def note(wait: WaitCondition, entry: HistoryEntry) -> set[int]:
    """Count an entry in the loops around its wait. Returns the entries that may be trimmed."""
    courses = courses_around(wait.fiber)
    trimmed: set[int] = set()
    if wait.kind is EntryKind.LOOP and entry.status is EntryStatus.OK:
        trimmed = courses.pop(0).begin(entry.seq)
        for course in courses:
            course.forget(trimmed)
    for course in courses:
        course.note((entry.seq,))
    return trimmed


@overload
def loop(body: EndlessBody[S], state: S, *, keep: int = KEEP) -> Op[Never]: ...
@overload
def loop(body: Body[S, R], state: S, *, keep: int = KEEP) -> Op[R]: ...
def loop(body: Callable[[Any], Any], state: Any, *, keep: int = KEEP) -> Op[Any]:
    """Run `body(state)` again and again: `Continue(state)` runs another round, `Break(value)` ends with the result.

    The state is recorded between rounds, and a restart resumes from the last recorded one. The last `keep` finished
    rounds stay in the history for people to read; older ones are trimmed.
    """
    if not callable(body):
        raise WrongType("loop", f"body must be a function of the state, not {type(body).__name__}")
    if not isinstance(keep, int) or isinstance(keep, bool) or keep < 0:
        raise InvalidValue("loop", f"keep must be an int of at least 0, not {keep!r}")
    return Loop(body, state, keep)
