"""The table of what programs are made of: one row for each op. A new op is a new row.

A row says how a step of its kind is made from dice, how a workflow body runs it, and which results and errors are
right. This is the oracle: only a genuine race has several right results, otherwise the row knows the exact one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import attrs

from durable.errors import Cancelled, TimedOut
from durable.runner.combinators import gather, race
from durable.runner.definitions import Durable, workflow
from durable.runner.determinism import now, random, uuid
from durable.runner.ops import Op, sleep, sleep_until
from simulation.activities import BADLY, RETRY, STUBBORNLY, WELL, Broken, Stubborn, echo, tidy, work
from simulation.asking import fits_pause, run_pause, settings_of
from simulation.dice import Dice
from simulation.holds import as_held, fits_saga, held, last_owes, may_fail, run_saga
from simulation.kinds import KINDS, WEIGHTS, event_of
from simulation.steps import Step, read
from simulation.told import BEGIN, END, tell

DEPTH_MAX = 3


@attrs.define
class Maker:
    """Makes steps from dice. It numbers them, and keeps track of where the next one is.

    `is_known`: in a workflow whose id clients know. `is_caught`: its errors are caught. `is_guarded`: in a guard, which
    cleans up after a cancellation.
    """

    dice: Dice
    number: int = 0
    depth: int = 0
    is_known: bool = True
    is_caught: bool = False
    is_guarded: bool = False

    def step(self, op: str, *steps: Step, **settings: Any) -> Step:
        """A step with the next number."""
        self.number += 1
        return Step(op, self.number, settings, steps)

    def some(self) -> Step:
        """A step of any kind; from `DEPTH_MAX` on only leaves."""
        ops = _LEAVES if self.depth >= DEPTH_MAX else _ALL
        return ROWS[self.dice.weighted(ops)].make(self)

    def inside(self, least: int, most: int) -> tuple[Step, ...]:
        """From `least` to `most` steps, one level deeper."""
        self.depth += 1
        steps = tuple(self.some() for _ in range(self.dice.between(least, most)))
        self.depth -= 1
        return steps

    def limit(self, share: float) -> dict[str, Any]:
        """Settings for a limit in milliseconds, in this share of cases, and for a default or an error when it ends."""
        limit = self.dice.between(0, 8_000) if self.dice.chance(share) else None
        return {"limit": limit, "default": self.dice.chance(0.5)}


@attrs.frozen(kw_only=True)
class Row:
    """One kind of step."""

    weight: int
    make: Callable[[Maker], Step]
    run: Callable[[Step], Durable[Any]]
    # Whether a value is right, and which errors are right, as `tag` writes them.
    fits: Callable[[Step, Any], bool]
    errors: Callable[[Step], frozenset[str]] = lambda _: frozenset()
    # Whether the step never suspends.
    at_once: Callable[[Step], bool] = lambda _: False
    is_leaf: bool = True


def run(step: Step) -> Durable[Any]:
    """Run a step in a workflow body."""
    return ROWS[step.op].run(step)


def fits(step: Step, value: Any) -> bool:
    """Whether a step may have this value."""
    return ROWS[step.op].fits(step, value)


def errors(step: Step) -> frozenset[str]:
    """The errors that a step may end with, as `tag` writes them."""
    return ROWS[step.op].errors(step)


def at_once(step: Step) -> bool:
    """Whether a step never suspends."""
    return ROWS[step.op].at_once(step)


def tag(error_type: str, message: object) -> str:
    """An error as a text that can be compared: its class without the module, and its message."""
    return f"{error_type.rpartition('.')[2]}({message})"


def limited(step: Step, op: Op[Any]) -> Durable[Any]:
    """Run an operation within the limit of its step, if that has one."""
    limit, late = step["limit"], ["late", step.n]
    if limit is None:
        return (yield from op)
    if step["default"]:
        return (yield from op.within(limit / 1000).or_default(late))
    try:
        return (yield from op.within(limit / 1000))
    except TimedOut:
        return late


def is_late(step: Step, value: Any) -> bool:
    """Whether a value says that the limit of a step ended it, and the step has one."""
    return step["limit"] is not None and value == ["late", step.n]


# --- leaves -------------------------------------------------------------------------------------------------------


def _run_constant(step: Step) -> Durable[Any]:
    return ["constant", step.n]
    yield


def _make_work(maker: Maker) -> Step:
    """An activity that may fail; rarely one that fails for good."""
    dice = maker.dice
    # Failures are rare where nothing catches them: a program that fails at its second step tests nothing after it.
    bad = 4 if maker.is_caught else 1
    ends = dice.weighted({WELL: 30, BADLY: bad, STUBBORNLY: bad})
    fails = dice.weighted({0: 8, 1: 2, 2: 1, 3: 1})
    return maker.step("work", ends=ends, fails=fails, **maker.limit(0.1))


def _run_work(step: Step) -> Durable[Any]:
    return (yield from limited(step, work(step.n, step["fails"], step["ends"])))


def _fits_work(step: Step, value: Any) -> bool:
    # A crash repeats an attempt with the same number, so the number of the attempt that succeeds is known beforehand.
    done = step["ends"] == WELL and value == ["done", step.n, step["fails"] + 1]
    mended = step["ends"] != WELL and value == ["mended", step.n]
    return done or mended or is_late(step, value)


def _errors_work(step: Step) -> frozenset[str]:
    if step["ends"] == WELL:
        return frozenset()
    is_broken = step["ends"] == BADLY or step["fails"] >= (RETRY.max_attempts or 0)
    return frozenset({tag(Broken.__name__ if is_broken else Stubborn.__name__, step.n)})


def _run_draw(step: Step) -> Durable[Any]:
    """Draw everything that must be the same in a replay, and record it with an activity."""
    drawn = [str(uuid()), str(uuid("other")), random().getrandbits(30), now().isoformat()]
    return [drawn, (yield from echo(drawn)), uuid() != uuid()]


def _fits_draw(step: Step, value: Any) -> bool:
    # The body draws again on every replay. The values that it first gave to the activity are recorded.
    drawn, echoed, differ = value
    return bool(drawn == echoed and differ)


def _run_sleep(step: Step) -> Durable[Any]:
    before = now()
    wanted = timedelta(milliseconds=step["ms"])
    fired = yield from sleep(wanted) if step["how"] == "for" else sleep_until(before + wanted)
    return ["slept", step.n, fired >= before + wanted, now() == fired]


def _make_sleep(maker: Maker) -> Step:
    ms = maker.dice.weighted({0: 1, 1: 1, 500: 3, 2_000: 3, 7_000: 2, 40_000: 1})
    if maker.dice.chance(0.3):
        return maker.step("sleep", how="until", ms=ms if maker.dice.chance(0.7) else -ms)
    return maker.step("sleep", how="for", ms=ms)


def _make_event(maker: Maker) -> Step:
    dice = maker.dice
    kind = dice.weighted(WEIGHTS)
    if KINDS[kind].is_targeted and not maker.is_known:
        kind = "shared"
    name = f"{kind}-{dice.below(KINDS[kind].names)}"
    key = "key" if dice.chance(0.2) else None
    return maker.step("event", event=name, key=key, **maker.limit(1.0 if KINDS[kind].is_choosy else 0.25))


def _run_event(step: Step) -> Durable[Any]:
    return (yield from limited(step, event_of(step["event"]).wait(step["key"])))


def _fits_event(step: Step, value: Any) -> bool:
    # The payload of an event is its id, which begins with its name and key. The rules of mail decide which is right.
    return is_late(step, value) or (isinstance(value, str) and value.startswith(f"{step['event']}/{step['key']}/"))


# --- what holds other steps -----------------------------------------------------------------------------------------


def _run_sequence(step: Step) -> Durable[Any]:
    values = []
    for inner in step.steps:
        values.append((yield from run(inner)))
    return values


def _fits_all(step: Step, value: Any) -> bool:
    return len(value) == len(step.steps) and all(map(fits, step.steps, value))


def _errors_inside(step: Step) -> frozenset[str]:
    return frozenset().union(*map(errors, step.steps))


def _all_at_once(step: Step) -> bool:
    return all(map(at_once, step.steps))


def _run_gather(step: Step) -> Durable[Any]:
    return list((yield from gather(*map(run, step.steps))))


def _run_race(step: Step) -> Durable[Any]:
    won = yield from race(*map(run, step.steps))
    return [won.key, won.value]


def _runners(step: Step) -> tuple[Step, ...]:
    """The branches that can win: those that never suspend, or all if every branch suspends."""
    return tuple(filter(at_once, step.steps)) or step.steps


def _fits_race(step: Step, value: Any) -> bool:
    winner = step.steps[value[0]]
    return winner in _runners(step) and fits(winner, value[1])


def _make_attempt(maker: Maker) -> Step:
    was_caught, maker.is_caught = maker.is_caught, True
    inside = maker.inside(1, 1)
    maker.is_caught = was_caught
    return maker.step("attempt", *inside)


def _make_saga(maker: Maker) -> Step:
    """A saga around a hold, up to two other steps, and a step that often fails."""
    was_caught, maker.is_caught = maker.is_caught, True
    steps = (ROWS["hold"].make(maker), *maker.inside(0, 2), may_fail(_make_work(maker), maker.dice))
    maker.is_caught = was_caught
    return maker.step("saga", maker.step("sequence", *steps))


def _run_attempt(step: Step) -> Durable[Any]:
    try:
        return ["fine", (yield from run(step.steps[0]))]
    except (Broken, Stubborn) as error:
        return ["caught", tag(type(error).__name__, error.args[0])]


def _fits_attempt(step: Step, value: Any) -> bool:
    how, result = value
    if how == "fine":
        return fits(step.steps[0], result)
    return bool(how == "caught" and result in errors(step.steps[0]))


def _make_guard(maker: Maker) -> Step:
    was_guarded, maker.is_guarded = maker.is_guarded, True
    inside = maker.inside(1, 1)
    maker.is_guarded = was_guarded
    return maker.step("guard", *inside)


def _run_guard(step: Step) -> Durable[Any]:
    try:
        return (yield from run(step.steps[0]))
    except Cancelled:
        yield from tidy(step.n)
        raise


def few_rounds(maker: Maker) -> int:
    """How many rounds a program has."""
    return maker.dice.weighted({1: 6, 2: 2, 3: 1})


def make_program(dice: Dice, number: int, size: int) -> Step:
    """The program of a workflow: rounds of steps, about `size` in all. Their numbers begin after `number`."""
    maker = Maker(dice, number)
    count = few_rounds(maker)
    least = max(1, size // count)
    rounds = [maker.step("sequence", *maker.inside(least, least + 2)) for _ in range(count)]
    return maker.step("rounds", *last_owes(rounds), publishes=dice.chance(0.3))


@workflow(name="durable.simulated")
def simulated(program: str, carried: list[Any]) -> Durable[list[Any]]:
    """Run a program: one round after the other, each continued as the next with the results so far."""
    whole = read(program)
    if whole.settings.get("publishes"):
        tell(BEGIN)
    results = [*carried, (yield from run(whole.steps[len(carried)]))]
    if len(results) < len(whole.steps):
        raise simulated.continue_as(program, results)
    if whole.settings.get("publishes"):
        tell(END)
    return results


def _not_run(step: Step) -> Durable[Any]:
    raise AssertionError(f"{step.op} is only allowed at the top of a program")


def _make_one(op: str) -> Callable[[Maker], Step]:
    return lambda maker: maker.step(op)


def _make_around(op: str, least: int, most: int) -> Callable[[Maker], Step]:
    return lambda maker: maker.step(op, *maker.inside(least, most))


ROWS = {
    "constant": Row(
        weight=1, make=_make_one("constant"), run=_run_constant,
        fits=lambda step, value: bool(value == ["constant", step.n]), at_once=lambda _: True,
    ),
    "work": Row(weight=16, make=_make_work, run=_run_work, fits=_fits_work, errors=_errors_work),
    "hold": Row(
        weight=6, make=lambda maker: as_held(_make_work(maker), maker.dice),
        run=lambda step: limited(step, held(step)), fits=_fits_work, errors=_errors_work,
    ),
    "draw": Row(weight=2, make=_make_one("draw"), run=_run_draw, fits=_fits_draw),
    "sleep": Row(
        weight=4, make=_make_sleep, run=_run_sleep,
        fits=lambda step, value: bool(value == ["slept", step.n, True, True]),
        at_once=lambda step: bool(step["ms"] <= 0),
    ),
    "event": Row(weight=5, make=_make_event, run=_run_event, fits=_fits_event),
    "pause": Row(
        weight=3, make=lambda maker: maker.step("pause", **settings_of(maker.dice)), run=run_pause, fits=fits_pause,
    ),
    "sequence": Row(
        weight=2, make=_make_around("sequence", 1, 4), run=_run_sequence, fits=_fits_all,
        errors=_errors_inside, at_once=_all_at_once, is_leaf=False,
    ),
    "gather": Row(
        weight=3, make=_make_around("gather", 0, 4), run=_run_gather, fits=_fits_all,
        errors=_errors_inside, at_once=_all_at_once, is_leaf=False,
    ),
    "race": Row(
        weight=3, make=_make_around("race", 1, 4), run=_run_race, fits=_fits_race,
        errors=lambda step: frozenset().union(*map(errors, _runners(step))),
        at_once=lambda step: any(map(at_once, step.steps)), is_leaf=False,
    ),
    "attempt": Row(
        weight=4, make=_make_attempt, run=_run_attempt, fits=_fits_attempt,
        at_once=_all_at_once, is_leaf=False,
    ),
    "saga": Row(
        weight=4, make=_make_saga, run=lambda step: run_saga(step, run(step.steps[0])),
        fits=lambda step, value: fits_saga(step, value, fits, errors), at_once=_all_at_once, is_leaf=False,
    ),
    "guard": Row(
        weight=2, make=_make_guard, run=_run_guard, fits=lambda step, value: fits(step.steps[0], value),
        errors=_errors_inside, at_once=_all_at_once, is_leaf=False,
    ),
    "rounds": Row(
        weight=0, make=_make_around("rounds", 1, 1), run=_not_run, fits=_fits_all, errors=_errors_inside, is_leaf=False,
    ),
}  # fmt: skip
# The weights with which ops are drawn: all of them, and only leaves.
_ALL: dict[str, int] = {}
_LEAVES: dict[str, int] = {}


def add(rows: dict[str, Row]) -> None:
    """Enter rows in the table. Files with more rows call this, and what a seed means depends on the order."""
    ROWS.update(rows)
    _ALL.update({op: row.weight for op, row in rows.items()})
    _LEAVES.update({op: row.weight for op, row in rows.items() if row.is_leaf})


add(ROWS)
