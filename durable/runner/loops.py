"""`loop`: a helper that is run round after round, with a state that is recorded between two rounds.

Rounds are branches of which one is open at a time: the steps of round 3 of a loop at 4 are `4.3.0, 4.3.1`. When a round
that has learnt something ends with `Continue`, the state is recorded as the first entry of the next one, and nothing
before that entry is needed any more: a replay goes on from there, and old rounds are trimmed from the history. Rounds
that owe undos are needed until these are done; as long as there are any, a replay begins with the first of them.
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
# How many finished rounds stay in the history, to be read by people.
KEEP = 10


@attrs.frozen
class Continue(Generic[S_co]):
    """What the body of a loop returns to go on: the state of the next round."""

    state: S_co


@attrs.frozen
class Break(Generic[T_co]):
    """What the body of a loop returns to end it: the loop's result."""

    value: T_co


# Protocols, not `Callable`: mypy then reads the type of an empty first state, `loop(body, [])`, off the body.
class EndlessBody(Protocol[S]):
    """The body of a loop that only ends when it is stopped."""

    def __call__(self, state: S, /) -> Branch[Continue[S]]:
        """One round."""
        ...


class Body(Protocol[S, T_co]):
    """The body of a loop that comes to a result."""

    def __call__(self, state: S, /) -> Branch[Continue[S] | Break[T_co]]:
        """One round."""
        ...


class Loop(Branches[T_co]):
    """A helper, its first state, and how many finished rounds are kept."""

    verb = "loop"
    limit = 1

    def __init__(self, body: Callable[[Any], Any], state: Any, keep: int) -> None:
        super().__init__(())
        self.body = body
        self.state = state
        self.keep = keep

    def coder(self, codec: Codec) -> Coder:
        """The coder of the state: by the annotation of the body's parameter, else by the type of the first state."""
        where = f"loop {getattr(self.body, '__name__', type(self.body).__name__)}"
        found = codec.function(self.body, where).first
        return codec.coder(type(self.state), f"{where}: state") if found is None else found


class LoopState(Leaf[Any]):
    """A round begins with this state."""

    kind = EntryKind.LOOP
    name = "state"

    def __init__(self, coder: Coder, text: str) -> None:
        self.coder = coder
        # What is to be recorded; nothing where it is recorded already.
        self.text = text

    def prepare(self, wait: WaitCondition, session: Ambient) -> None:
        """The state is packed already."""
        wait.input = self.text

    def read(self, entry: HistoryEntry, codec: Codec) -> Any:
        """The state that is recorded. Raises `CodecError`."""
        return RoundState.read(entry.outcome, self.coder)

    def __str__(self) -> str:
        return "state of a loop"


class Course:
    """How far a loop is: the tally of its rounds."""

    def __init__(self, op: Loop[Any], codec: Codec, past: PastRounds | None) -> None:
        self.op = op
        self.coder = op.coder(codec)
        self.state = self.coder.pack(op.state)[1]
        self.round = 0
        # What was drawn in this round.
        self.draws = Draws()
        # What is to be recorded before the next round, if anything, and whether the round now began with that.
        self.recording: str | None = None
        self.is_recorded = False
        # Whether this round has learnt anything.
        self.is_touched = False
        # By the start of a round, the first one first: how much of it must be undone if the workflow fails. Rounds that
        # owe something are needed although they are over.
        self.owing: dict[int, int] = {}
        # The rounds that stand in the history, the last of them the one that runs.
        self.rounds: deque[Round] = deque()
        if past is not None and past.since:
            self.round, self.recording = past.since, ""
            self.rounds.extend(past.rounds)
        else:
            self.rounds.append(Round(0, set()))

    def empty(self) -> Outcome:
        """Not asked for: there is always a first round."""
        raise AssertionError("a loop has a round")

    def finished(self, index: int, outcome: Outcome) -> Outcome | None:
        """A round has ended, or its state was recorded: how the loop ends, or None while it goes on."""
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
            case other:
                problem = f"the body of a loop must return Continue(state) or Break(value), not {type(other).__name__}"
                return Raised(OperationMisused(problem))

    def _go_on(self, state: Any) -> Raised | None:
        try:
            text, self.state = self.coder.pack(state)
        except CodecError as error:
            return Raised(error)
        self.round += 1
        self.draws.clear()
        self.is_recorded = False
        # A round that has learnt nothing comes to the same end whenever it is run.
        if self.is_touched:
            self.is_touched, self.recording = False, RoundState.text(next(iter(self.owing), self.round), text)
        return None

    # --- what the rounds have learnt ------------------------------------------------------------------------------

    def note(self, entries: Iterable[int]) -> None:
        """The round that runs has learnt something."""
        self.is_touched = True
        self.rounds[-1].entries.update(entries)

    def begin(self, entry: int) -> set[int]:
        """The state of the next round is recorded: the entries that nobody needs any more."""
        self.rounds.append(Round(self.round, {entry}))
        first = min(self.round - self.op.keep, next(iter(self.owing), self.round))
        trimmed: set[int] = set()
        while len(self.rounds) > 1 and self.rounds[1].start <= first:
            trimmed |= self.rounds.popleft().entries
        return trimmed

    def forget(self, entries: set[int]) -> None:
        """A loop inside this round has trimmed its history."""
        self.rounds[-1].entries.difference_update(entries)

    def hold(self) -> int:
        """What this round has learnt is needed until it owes nothing; where the round starts."""
        start = self.rounds[-1].start
        self.owing[start] = self.owing.get(start, 0) + 1
        return start

    def let_go(self, start: int) -> None:
        """Something that the round has owed is undone."""
        self.owing[start] -= 1
        if not self.owing[start]:
            del self.owing[start]


class Rounds(Group):
    """The rounds of a loop: one branch at a time, numbered by its round."""

    __slots__ = ("course",)

    def __init__(self, course: Course, fiber: Fiber, position: str) -> None:
        super().__init__(course, iter(()), fiber, position)
        self.course = course

    def open(self, limit: int | None) -> Iterator[Fiber]:
        """The next round, or the record of its state, which comes first."""
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
    try:
        made = use(course.op.body(course.state), "loop")
    except BaseException as error:
        return failing(error)
    return iter(made) if isinstance(made, Op) else made


def rounds_of(op: Loop[Any], fiber: Fiber, position: str, session: Ambient) -> Rounds:
    """The rounds of a loop, from the first one, or from where a replay resumes.

    Raises `CodecError` for its state, and whatever a body raises that is asked for its signature.
    """
    past = session.past.loops.get(position)
    session.has_loop = True
    # Rounds that a replay skips may have spawned children.
    session.has_spawned = session.has_spawned or past is not None
    group = Rounds(Course(op, session.codec, past), fiber, position)
    for skipped in past.rounds if past is not None else ():
        for course in courses_around(fiber):
            course.note(skipped.entries)
    return group


def courses_around(fiber: Fiber) -> list[Course]:
    """The loops that a fiber runs in, the innermost first."""
    return [group.course for group in groups_around(fiber) if isinstance(group, Rounds)]


def note(wait: WaitCondition, entry: HistoryEntry) -> set[int]:
    """Tell the loops around a wait what their rounds have learnt. Returns the entries that are no longer needed."""
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
    """Run `body(state)` again and again: `Continue(state)` goes on with that state, `Break(value)` is the result.

    The state is recorded between two rounds and a restart goes on from there. The last `keep` finished rounds stay in
    the history for people to read, older ones are trimmed.
    """
    if not callable(body):
        raise WrongType("loop", f"body must be a function of the state, not {type(body).__name__}")
    if not isinstance(keep, int) or isinstance(keep, bool) or keep < 0:
        raise InvalidValue("loop", f"keep must be an int from 0 up, not {keep!r}")
    return Loop(body, state, keep)
