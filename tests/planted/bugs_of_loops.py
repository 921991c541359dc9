"""Planted bugs: loops. Their rounds, their states, what is trimmed, and random values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from durable.engine.decide import body
from durable.engine.decide.turn import Turn
from durable.engine.state.bodies import Loaded
from durable.engine.state.chronicle import Chronicle
from durable.model.records import HistoryEntry
from durable.runner import determinism, interpreter, loops, timers
from durable.runner.ambient import Ambient
from durable.runner.draws import Draws
from durable.runner.fibers import Fiber, WaitCondition, groups_around
from durable.runner.loops import Course, Loop, Rounds
from durable.runner.ops import Outcome, Raised, Timer
from durable.runner.past import Past, PastRounds, RoundState
from tests.planted.planting import Planter, bug

# --- states ---------------------------------------------------------------------------------------------------------


@bug("I33", seed=6)
def state_not_recorded(planter: Planter) -> None:
    """The state is recorded between two rounds, so that a replay continues from there."""
    go_on = Course._go_on

    def _go_on(self: Course, state: Any) -> Raised | None:
        refused = go_on(self, state)
        self.recording = None
        return refused

    planter.replace(Course, _go_on)


@bug("I33", seed=1)
def round_that_learns_nothing_is_recorded(planter: Planter) -> None:
    """A round without entries leaves nothing in the history."""
    go_on = Course._go_on

    def _go_on(self: Course, state: Any) -> Raised | None:
        self.is_touched = True
        return go_on(self, state)

    planter.replace(Course, _go_on)


@bug("I5", "I9", "I25", "I29", seed=3)
def old_state_used(planter: Planter) -> None:
    """A round begins with the recorded state, even after a restart."""
    finish = Course.finished

    def finished(self: Course, index: int, outcome: Outcome) -> Outcome | None:
        before = self.state
        outcome_of_loop = finish(self, index, outcome)
        if self.is_recorded:
            self.state = before
        return outcome_of_loop

    planter.replace(Course, finished)


@bug("I8", "I9", "I25", "engine", seed=3)
def place_of_the_state_used_again(planter: Planter) -> None:
    """The steps of a round come after its state."""
    begin = Rounds.open

    def open(self: Rounds, limit: int | None) -> Iterator[Fiber]:
        for fiber in begin(self, limit):
            fiber.count = 0
            yield fiber

    planter.replace(Rounds, open)


# --- replay ---------------------------------------------------------------------------------------------------------


@bug("I9", "I25", "I5", "I33", seed=3)
def replay_from_the_first_round(planter: Planter) -> None:
    """A rebuilt loop continues with the round that was running."""
    look_up = Past._look_up

    def _look_up(self: Past, aside: Any) -> None:
        look_up(self, aside)
        self.loops.clear()

    planter.replace(Past, _look_up)


@bug("I25", "I33", "I5", seed=3)
def replay_from_the_round_after(planter: Planter) -> None:
    """A rebuilt loop does not skip the round that was running."""
    look_up = Past._look_up

    def _look_up(self: Past, aside: Any) -> None:
        look_up(self, aside)
        self.loops = {loop: PastRounds(past.since + 1, past.rounds) for loop, past in self.loops.items()}

    planter.replace(Past, _look_up)


@bug("I5", "I19", "I24", seed=88)
def deadline_from_the_beginning_of_the_loop(planter: Planter) -> None:
    """A timer in a loop counts from the moment it is asked for, in every round."""
    prepare, begin = timers.prepare_timer, loops.rounds_of
    begun: dict[int, tuple[Rounds, int]] = {}

    def rounds_of(op: Loop[Any], fiber: Fiber, position: str, session: Ambient) -> Rounds:
        rounds = begin(op, fiber, position, session)
        begun[id(rounds)] = (rounds, 0)
        return rounds

    def prepare_timer(op: Timer, wait: WaitCondition, session: Ambient) -> Outcome | None:
        now = session.now
        around = [group for group in groups_around(wait.fiber) if id(group) in begun]
        if around:
            rounds, since = begun[id(around[0])]
            begun[id(rounds)] = (rounds, since or now)
            session.now = since or now
        try:
            return prepare(op, wait, session)
        finally:
            session.now = now

    planter.replace(interpreter, rounds_of)
    planter.replace(timers, prepare_timer)


# --- trimming -------------------------------------------------------------------------------------------------------


@bug("I33")
def one_round_too_many_trimmed(planter: Planter) -> None:
    """The loop keeps exactly as many finished rounds as `keep` says."""
    start = Course.begin

    def begin(self: Course, entry: int) -> set[int]:
        trimmed = start(self, entry)
        if len(self.rounds) > 1 and not self.owing:
            trimmed |= self.rounds.popleft().entries
        return trimmed

    planter.replace(Course, begin)


@bug("I33", seed=1)
def state_that_is_needed_trimmed(planter: Planter) -> None:
    """The state with which the running round began is kept."""
    start = Course.begin

    def begin(self: Course, entry: int) -> set[int]:
        return start(self, entry) | ({entry} if self.round > 1 else set())

    planter.replace(Course, begin)


@bug("I33", seed=3)
def undos_do_not_hold_rounds(planter: Planter) -> None:
    """A finished round is kept to the end if it owes an undo."""

    def hold(self: Course) -> None:
        pass

    planter.replace(Course, hold)


@bug("I31", "I33", "I25", seed=3)
def replay_forgets_what_rounds_owe(planter: Planter) -> None:
    """A replay begins with the first round that owes an undo."""
    text = RoundState.text.__func__  # type: ignore[attr-defined]  # a class method
    go_on = Course._go_on

    def _go_on(self: Course, state: Any) -> Raised | None:
        refused = go_on(self, state)
        if self.recording is not None:
            self.recording = text(RoundState, self.round, self.coder.pack(state)[0])
        return refused

    planter.replace(Course, _go_on)


@bug("I33", seed=36)
def rounds_around_a_loop_do_not_hear_of_it(planter: Planter) -> None:
    """An entry in a round of an inner loop also counts for the round of the outer loop."""
    around = loops.courses_around

    def courses_around(fiber: Fiber) -> list[Course]:
        return around(fiber)[:1]

    planter.replace(loops, courses_around)


@bug("I33", seed=15)
def rounds_before_a_restart_stay_for_ever(planter: Planter) -> None:
    """A rebuilt loop knows the rounds that it keeps, and trims them in time."""

    def _is_over(self: Past, entry: HistoryEntry) -> bool:
        over = is_over(self, entry)
        for past in self.loops.values():
            past.rounds.clear()
        return over

    is_over = Past._is_over
    planter.replace(Past, _is_over)


@bug("I33", seed=1)
def nothing_is_trimmed(planter: Planter) -> None:
    """Entries that nobody needs are trimmed."""

    def trim(self: Chronicle, key: int, entries: Iterable[int]) -> None:
        pass

    planter.replace(Chronicle, trim)


@bug("I33", "I4", "I3", "I6", seed=2)
def next_round_trimmed_by_the_last(planter: Planter) -> None:
    """What a loop trimmed does not affect the next round of the workflow, which counts from 1 again."""

    def clear(self: Chronicle, key: int) -> None:
        self.batch.history = self.batch.history.without(key)
        self.batch.restarted.add(key)

    planter.replace(Chronicle, clear)


@bug("I33", seed=3)
def some_rounds_stay_for_ever(planter: Planter) -> None:
    """Entries are trimmed in the commit of the step that made them useless."""
    look_after = body._look_after_history

    def _look_after_history(turn: Turn, loaded: Loaded) -> None:
        if loaded.session.trimmed and loaded.seq % 2:
            loaded.session.trimmed = frozenset()
        look_after(turn, loaded)

    planter.replace(body, _look_after_history)


# --- draws ----------------------------------------------------------------------------------------------------------


@bug("I5", "I24", seed=3)
def draws_counted_over_all_rounds(planter: Planter) -> None:
    """The random values of a round do not depend on earlier rounds, which a replay may skip."""

    def _place_of_draw(session: Ambient) -> tuple[tuple[str, ...], Draws]:
        if session.draws is None:
            session.draws = Draws()
        return (), session.draws

    planter.replace(determinism, _place_of_draw)


@bug("I5", seed=1)
def draws_the_same_in_every_round(planter: Planter) -> None:
    """Each round draws its own random values."""
    place_of_draw = determinism._place_of_draw

    def _place_of_draw(session: Ambient) -> tuple[tuple[str, ...], Draws]:
        places, draws = place_of_draw(session)
        return tuple(place.rpartition(".")[0] for place in places), draws

    planter.replace(determinism, _place_of_draw)
