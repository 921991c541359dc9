"""Loops in all combinations: random bodies, fed in random orders, and replayed after every entry.

A twin that has replayed the trimmed history must equal the live session, continue in the same way, and trim the same
entries. Chance decides which of the two continues, so that restarts happen at every point.
"""

from __future__ import annotations

import random as dice
from collections.abc import Callable
from typing import Any

import pytest

from durable.errors import TimedOut
from durable.model.records import EntryKind, EntryStatus, HistoryEntry
from durable.runner.combinators import fan_out, gather, race, settle
from durable.runner.definitions import Durable, WorkflowDef, workflow
from durable.runner.determinism import random, uuid
from durable.runner.fibers import WaitCondition
from durable.runner.loops import Break, Continue, loop
from durable.runner.ops import Returned, sleep
from durable.runner.results import Suspended
from durable.runner.undo import saga
from tests.runner.builders import (
    Declined,
    a_session,
    activity_error,
    activity_retry,
    answer,
    approval,
    cancellation,
    charge,
    notify,
    seconds,
)
from tests.runner.tale import whole

Node = tuple[str, list[Any], int, int]
LEAVES = ("charge", "charge", "undo", "sleep", "event", "quiet")
INNER = ("loop", "loop", "loop", "saga", "saga", "gather", "race", "settle", "fan out", "within")
MOST = 150


def a_node(rng: dice.Random, depth: int) -> Node:
    """The operation, the nodes inside it, the number of rounds, and the number to keep."""
    kind = rng.choice(LEAVES + INNER * bool(depth))
    inside = [a_node(rng, depth - 1) for _ in range(rng.randint(1, 3))] if kind in INNER else []
    return kind, inside, rng.randint(1, 5), rng.randint(0, 3)


def steps(nodes: list[Node]) -> Durable[int]:
    """Run nodes in turn."""
    total = 0
    for node in nodes:
        total += yield from DO[node[0]](node)
    return total


def branch(node: Node) -> Durable[int]:
    """A branch."""
    return steps([node])


def _charge(node: Node) -> Durable[int]:
    return (yield from charge(random("charge").randrange(10**6)))


def _undo(node: Node) -> Durable[int]:
    return (yield from charge(uuid("undo").int % 10**6).undo(lambda amount: notify(f"undo {amount}")))


def _sleep(node: Node) -> Durable[int]:
    yield from sleep(node[2])
    return 1


def _event(node: Node) -> Durable[int]:
    yield from approval.wait()
    return 2


def _quiet(node: Node) -> Durable[int]:
    yield from sleep(0)
    return random().randrange(1000)


def _loop(node: Node) -> Durable[int]:
    def body(state: list[int]) -> Durable[Continue[list[int]] | Break[int]]:
        number, total = state
        state.clear()
        total += yield from steps(node[1])
        return Continue([number + 1, total]) if number < node[2] else Break(total)

    return (yield from loop(body, [1, 0], keep=node[3]))


def _saga(node: Node) -> Durable[int]:
    try:
        return (yield from saga(steps(node[1])))
    except Declined:
        return 7


def _gather(node: Node) -> Durable[int]:
    return sum((yield from gather(*map(branch, node[1]))))


def _race(node: Node) -> Durable[int]:
    return (yield from race(*map(branch, node[1]))).value


def _settle(node: Node) -> Durable[int]:
    outcomes = yield from settle(*map(branch, node[1]))
    return sum(outcome.value for outcome in outcomes if isinstance(outcome, Returned))


def _fan_out(node: Node) -> Durable[int]:
    return sum((yield from fan_out(branch, node[1], limit=2)))


def _within(node: Node) -> Durable[int]:
    try:
        return (yield from saga(steps(node[1])).within(50))
    except TimedOut:
        return 5


DO: dict[str, Callable[[Node], Durable[int]]] = {
    "charge": _charge, "undo": _undo, "sleep": _sleep, "event": _event, "quiet": _quiet, "loop": _loop, "saga": _saga,
    "gather": _gather, "race": _race, "settle": _settle, "fan out": _fan_out, "within": _within,
}  # fmt: skip


def a_body(rng: dice.Random) -> WorkflowDef[[], Any]:
    """A workflow with some of these nodes, which may fail at the end."""
    nodes = [a_node(rng, 4) for _ in range(rng.randint(1, 3))]
    fails = rng.random() < 0.3

    @workflow(name="w")
    def body() -> Durable[int]:
        total = yield from steps(nodes)
        total += yield from charge(random().randrange(100))
        if fails:
            raise Declined("in the end")
        return total

    return body


def an_entry(rng: dice.Random, waits: list[WaitCondition], seq: int, now: int) -> HistoryEntry:
    """A random next entry; the state of a round comes before anything else."""
    for wait in waits:
        if wait.kind is EntryKind.LOOP:
            return HistoryEntry(seq, wait.position, wait.kind, wait.name, EntryStatus.OK, wait.input, now)
    wait, chance = rng.choice(waits), rng.random()
    if chance < 0.01:
        entry = cancellation(seq, "enough")
    elif wait.kind is EntryKind.ACTIVITY and chance < 0.1:
        entry = activity_error(seq, wait.position, wait.name, Declined("no"))
    elif wait.kind is EntryKind.ACTIVITY and chance < 0.15:
        entry = activity_retry(seq, wait.position, wait.name, now)
    else:
        entry = answer(wait, seq, wait.args[0] if wait.name == "charge" else None)
    return entry._replace(at_us=now + rng.randint(0, 3_000_000))


@pytest.mark.parametrize("seed", range(0, 50, 10))
def test_replay_of_the_trimmed_history_is_the_live_session(seed: int) -> None:
    """Waits, deadlines, draws, undos, ends and trimmed entries are the same, for any body with loops."""
    for number in range(seed, seed + 10):
        rng = dice.Random(number)
        body = a_body(rng)
        entries: list[HistoryEntry] = []
        live = a_session(body)
        result = live.start()
        for seq in range(1, MOST):
            twin = a_session(body)
            assert whole(twin, twin.replay(entries)) == whole(live, result), number
            assert not twin.trimmed, number
            if not isinstance(result, Suspended):
                break
            entry = an_entry(rng, [*live.waits.values()], seq, max(live.now, seconds(0)))
            result, again = live.feed(entry), twin.feed(entry)
            assert (whole(twin, again), twin.trimmed) == (whole(live, result), live.trimmed), number
            entries = [kept for kept in (*entries, entry) if kept.seq not in live.trimmed]
            live.trimmed = frozenset()
            twin.trimmed = frozenset()
            if rng.random() < 0.3:
                live, twin, result = twin, live, again
            twin.close()
        live.close()
