"""The replay of a loop: it resumes from the last state, with old rounds trimmed, and nothing else differs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from durable.errors import CodecError, HistoryDiverged, TimedOut
from durable.model.records import HistoryEntry
from durable.runner.combinators import fan_out, gather, race
from durable.runner.definitions import Durable, WorkflowDef, workflow
from durable.runner.determinism import now, random, uuid
from durable.runner.loops import Break, Continue, loop
from durable.runner.ops import sleep
from durable.runner.past import Past
from tests.runner.builders import (
    a_session,
    activity_ok,
    approval,
    charge,
    hours,
    notify,
    seconds,
    value_of,
    with_outcome,
)
from tests.runner.tale import Tale

Next = Continue[int] | Break[Any]


def ticking(keep: int, last: int = 40) -> WorkflowDef[[], Any]:
    """A workflow with a loop of two steps per round."""

    def body(number: int) -> Durable[Next]:
        yield from charge(number)
        yield from charge(number + 100)
        return Continue(number + 1) if number < last else Break(number)

    @workflow(name="w")
    def definition() -> Durable[Any]:
        first = yield from charge(1000)
        result = yield from loop(body, 0, keep=keep)
        return first, result, (yield from charge(2000))

    return definition


def after(rounds: int, keep: int) -> Tale:
    """The tale of a workflow that has completed this number of rounds of the loop at 1."""
    tale = Tale(ticking(keep)).ok("0")
    while f"1.{rounds}." not in " ".join(tale.open):
        tale.ok(*tale.open)
    return tale


# --- kept rounds ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [0, 1, 3])
@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 9])
def test_last_rounds_stay_and_older_ones_go(keep: int, rounds: int) -> None:
    """The last `keep` finished rounds stay in the history with their states, and no entry of earlier rounds does."""
    tale = after(rounds, keep)
    first = max(0, rounds - keep)
    expected = ["0"]
    for number in range(first, rounds):
        expected += [f"1.{number}.0*"] * (number > 0) + [f"1.{number}.{step + (number > 0)}" for step in (0, 1)]
    assert tale.recorded == [*expected, f"1.{rounds}.0*"]


def test_rounds_without_entries_are_counted_but_cost_nothing() -> None:
    """Rounds that recorded nothing belong to the state before them, and are kept and trimmed with it."""

    def body(number: int) -> Durable[Next]:
        if number % 3 == 0:
            yield from charge(number)
        return Continue(number + 1) if number < 10 else Break(number)

    @workflow(name="w")
    def definition() -> Durable[Any]:
        return (yield from loop(body, 0, keep=4))

    tale = Tale(definition).ok("0.0.0", "0.3.0", "0.6.0")
    assert tale.recorded == ["0.1.0*", "0.3.0", "0.4.0*", "0.6.0", "0.7.0*"]
    # Rounds 6 to 9 are the last four, and round 6 began with the state of round 4.
    assert tale.ok("0.9.0").value == 10
    assert tale.recorded == ["0.4.0*", "0.6.0", "0.7.0*", "0.9.0", "0.10.0*"]


@pytest.mark.parametrize(("before", "later"), [(3, 0), (0, 3), (2, 1), (10, 9)])
def test_new_code_may_keep_more_or_less(before: int, later: int) -> None:
    """A workflow that continues with another `keep` trims the surplus rounds and otherwise runs unchanged."""
    tale = after(6, before).restart(ticking(later))
    kept = min(before, later)
    rounds = {int(place.split(".")[1]) for place in tale.recorded if place.startswith("1.")}
    assert min(rounds) == max(0, 6 - kept)
    tale.ok("1.6.1", "1.6.2")
    assert tale.open == {"1.7.1": "charge 7"}
    rounds = {int(place.split(".")[1]) for place in tale.recorded if place.startswith("1.")}
    assert min(rounds) == max(0, 6 - kept, 7 - later)


# --- where a replay resumes -------------------------------------------------------------------------------------------


def test_no_earlier_round_is_run_again() -> None:
    """A replay calls the body once, with the state of the running round, however many rounds are kept."""
    called: list[int] = []

    def body(number: int) -> Durable[Next]:
        called.append(number)
        yield from charge(number)
        return Continue(number + 1)

    @workflow(name="w")
    def definition() -> Durable[Any]:
        yield from loop(body, 0, keep=5)

    tale = Tale(definition)
    for number in range(8):
        tale.ok(f"0.{number}.{min(number, 1)}")
    called.clear()
    tale.again().close()
    assert called == [8]


def test_recorded_state_is_used() -> None:
    """A replay uses the recorded state, not the one that present code would compute from earlier rounds."""
    tale = after(3, 10)
    changed = [
        with_outcome(entry, json.dumps({"since": 3, "state": 7})) if entry.position == "1.3.0" else entry
        for entry in tale.entries
    ]
    session = a_session(ticking(10))
    session.replay(changed)
    assert [wait.args for wait in session.waits.values()] == [(7,)]


def test_time_of_a_round_survives_a_replay() -> None:
    """A round begins at the same `now` on replay, so no deadline in it moves, whatever was trimmed."""
    seen: list[object] = []

    def body(number: int) -> Durable[Next]:
        seen.append((number, now()))
        yield from approval.wait().within(hours(1)).or_default("")
        return Continue(number + 1)

    @workflow(name="w")
    def definition() -> Durable[Any]:
        yield from loop(body, 0, keep=0)

    tale = Tale(definition).ok("0.0.0.0.0", "0.1.1.0.0", "0.2.1.1.0")
    seen.clear()
    session = tale.again()
    assert session.now == tale.session.now == seconds(6 - 1)
    assert len(seen) == 1
    assert session.wake_at() == tale.session.wake_at() == session.now + 3600 * 1_000_000


def test_limit_around_a_loop_never_moves() -> None:
    """The limit around a loop counts from the start of the loop, even if its first rounds were trimmed."""

    def body(number: int) -> Durable[Next]:
        yield from sleep(10)
        return Continue(number + 1)

    @workflow(name="w")
    def definition() -> Durable[str]:
        try:
            yield from loop(body, 0, keep=0).within(100)
        except TimedOut:
            return "over"
        return ""

    tale = Tale(definition)
    for number in range(5):
        tale.ok(f"0.0.0.{number}.{min(number, 1)}").restart()
        assert tale.session.waits["0.1.0"].deadline == seconds(100)
    assert tale.ok("0.1.0").value == "over"


# --- draws ------------------------------------------------------------------------------------------------------------


def drawing(keep: int) -> WorkflowDef[[], Any]:
    """Draws before, in, inside and after the rounds of two loops, and in the call of a body."""

    def called(number: int) -> Any:
        drawn = random("called").randrange(10**9)

        def steps() -> Durable[Next]:
            yield from charge(drawn)
            yield from gather(charge(uuid().int % 10**9), charge(uuid().int % 10**9))
            yield from loop(inner, number, keep=keep)
            return Continue(number + 1) if number < 2 else Break(None)

        return steps()

    def inner(number: int) -> Durable[Next]:
        yield from charge(uuid().int % 10**9)
        return Continue(number + 1) if number < 3 else Break(None)

    @workflow(name="w")
    def definition() -> Durable[None]:
        yield from charge(uuid().int % 10**9)
        yield from loop(called, 0, keep=keep)
        yield from charge(uuid().int % 10**9)
        yield from charge(random("called").randrange(10**9))

    return definition


def drawn(keep: int, *, restarts: bool) -> list[str]:
    """All texts that were charged."""
    tale = Tale(drawing(keep))
    charged: list[str] = []
    while tale.session.waits:
        place, text = next(iter(tale.open.items()))
        charged.append(text)
        tale.ok(place)
        if restarts and tale.session.waits:
            tale.restart()
    return charged


def test_draws_do_not_depend_on_restarts_or_kept_rounds() -> None:
    """`uuid` and `random` give each round their own values, the same for any `keep` and any restart."""
    charged = drawn(10, restarts=False)
    assert len(set(charged)) == len(charged) == 3 + 3 * 3 + (4 + 3 + 2)
    assert drawn(0, restarts=False) == drawn(0, restarts=True) == drawn(1, restarts=True) == charged


# --- loops in branches and in each other ------------------------------------------------------------------------------


def test_loops_side_by_side_go_on_alone() -> None:
    """Each loop of a gather and of a fan_out has its own rounds, and a restart finds all of them."""

    def body(number: int) -> Durable[Next]:
        yield from charge(number)
        return Continue(number + 1) if number % 10 < 3 else Break(number)

    @workflow(name="w")
    def definition() -> Durable[Any]:
        return (yield from gather(loop(body, 0, keep=0), fan_out(lambda n: loop(body, n, keep=1), [10, 20], limit=1)))

    tale = Tale(definition).ok("0.0.0.0.0", "0.1.0.0.0.0.0", "0.1.0.0.0.1.1").restart()
    assert tale.open == {"0.0.0.1.1": "charge 1", "0.1.0.0.0.2.1": "charge 12"}
    while tale.session.waits:
        tale.ok(next(reversed(tale.open)))
        if tale.session.waits:
            tale.restart()
    assert tale.value == (3, [13, 23])


def test_loops_nest() -> None:
    """The entries of an inner loop are trimmed with its outer round, and a restart resumes in the innermost round."""

    def outer(number: int) -> Durable[Next]:
        total = yield from loop(inner, number * 10, keep=1)
        yield from charge(total + 5)
        return Continue(number + 1)

    def inner(number: int) -> Durable[Next]:
        yield from charge(number)
        return Continue(number + 1) if number % 10 < 3 else Break(number)

    @workflow(name="w")
    def definition() -> Durable[Any]:
        yield from loop(outer, 0, keep=0)

    tale = Tale(definition)
    while "0.2.1.3.1" not in tale.open:
        tale.ok(*tale.open).restart()
    assert tale.open == {"0.2.1.3.1": "charge 23"}
    # The outer state, the last inner round that is kept, and the running one.
    assert tale.recorded == ["0.2.0*", "0.2.1.2.0*", "0.2.1.2.1", "0.2.1.3.0*"]


def test_loop_that_loses_leaves_nothing() -> None:
    """Its wait is withdrawn, and a replay finds the same winner although its rounds are skipped."""

    def body(number: int) -> Durable[Next]:
        yield from charge(number)
        return Continue(number + 1)

    @workflow(name="w")
    def definition() -> Durable[Any]:
        won = yield from race(loop(body, 0, keep=0), approval.wait())
        yield from notify()
        return won.key

    tale = Tale(definition).ok("0.0.0.0.0", "0.0.0.1.1").restart().ok("0.1.0")
    assert tale.withdrawn == ["0.0.0.2.1"]
    assert tale.open == {"1": "notify"}
    assert tale.restart().ok("1").value == 1


# --- code or text that does not fit ---------------------------------------------------------------------------------


def test_code_without_the_loop_diverges() -> None:
    """A body that asks for another operation where the state of a round is recorded diverges."""

    @workflow(name="w")
    def other() -> Durable[Any]:
        yield from charge(1000)
        yield from gather(*[charge(number) for number in range(9)])

    with pytest.raises(HistoryDiverged) as caught:
        a_session(other).replay(after(4, 2).entries)
    assert (caught.value.position, caught.value.recorded) == ("1.4.0", "loop state")


@pytest.mark.parametrize("text", ["{", "7", '{"since":4}', '{"since":4,"state":"no number"}', '{"since":-1,"state":x}'])
def test_state_that_cannot_be_read_is_a_codec_error(text: str) -> None:
    """Damaged text stops the replay with an error that names the entry or the parameter."""
    entries = [with_outcome(entry, text) if entry.position == "1.4.0" else entry for entry in after(4, 2).entries]
    with pytest.raises(CodecError, match=r"entry \d+ \(loop\)|parameter 'number'"):
        a_session(ticking(2)).replay(entries)


def test_past_without_loops_is_the_history() -> None:
    """A history without entries to look up is fed as it is, without a copy."""
    entries: list[HistoryEntry] = [activity_ok(1, "0", "charge", 1)]
    assert Past(entries).entries is entries
    assert Past(iter(entries)).entries == entries
    assert value_of(a_session(charging).replay(entries)) == 1


@workflow(name="loop-replay.charging")
def charging() -> Durable[int]:
    """One step."""
    return (yield from charge(1))
