"""More canonical workflows: loops, code that changes, and repairs."""

from __future__ import annotations

from typing import Any

from durable import (
    Break,
    Continue,
    Durable,
    Retry,
    activity,
    gather,
    loop,
    patched,
    race,
    removed,
    sleep,
    workflow,
)
from durable.runner.definitions import WorkflowDef
from tests.exhaustive.flows import Declined, go, slow, waiter, work

# Which code the process runs, and whether the outside world works again. A script begins with neither.
WORLD = {"has new code": False, "is mended": False}


@activity(name="points.fragile", retry=Retry.never())
def fragile(number: int) -> int:
    """Fails until the outside world works again."""
    if not WORLD["is mended"]:
        raise Declined(number)
    return number * 1000


# --- loops ----------------------------------------------------------------------------------------------------------


def _collect(state: list[int]) -> Durable[Continue[list[int]] | Break[list[int]]]:
    """Takes an event and does an activity, in each of four rounds."""
    done = yield from work((yield from go.wait()))
    return Continue([*state, done]) if len(state) < 3 else Break([*state, done])


@workflow(name="points.collector")
def collector(keep: int) -> Durable[list[Any]]:
    """Runs a loop that is mostly trimmed, then a step."""
    nothing: list[int] = []
    collected = yield from loop(_collect, nothing, keep=keep)
    return [collected, (yield from work(9))]


def _tick(left: int) -> Durable[Continue[int] | Break[str]]:
    """Sleeps in every second round; the other rounds record nothing."""
    if left == 0:
        return Break("ticked")
    if left % 2:
        yield from sleep(20)
    return Continue(left - 1)


def _for_ever(number: int) -> Durable[Continue[int]]:
    yield from work(number)
    yield from sleep(30)
    return Continue(number + 1)


@workflow(name="points.weaver")
def weaver() -> Durable[list[Any]]:
    """Runs loops in branches. One would never end, and loses."""
    won, ticked = yield from gather(race(loop(_for_ever, 1, keep=0), go.wait()), loop(_tick, 4, keep=0))
    return [won.key, won.value, ticked]


def _column(state: list[int]) -> Durable[Continue[list[int]] | Break[list[int]]]:
    done = yield from work(10 * state[0] + state[1])
    state = [state[0], state[1] + 1, *state[2:], done]
    return Continue(state) if state[1] < 3 else Break(state[2:])


def _row(state: list[list[int]]) -> Durable[Continue[list[list[int]]] | Break[list[list[int]]]]:
    row = yield from loop(_column, [len(state), 1], keep=1)
    state = [*state, row]
    return Continue(state) if len(state) < 3 else Break(state)


@workflow(name="points.table")
def table() -> Durable[list[list[int]]]:
    """Runs a loop inside a loop."""
    nothing: list[list[int]] = []
    return (yield from loop(_row, nothing, keep=0))


def _rent(number: int) -> Durable[Continue[int]]:
    """Does a step with an undo. The third round fails."""
    yield from work(number).undo(work)
    if number == 3:
        raise Declined(number)
    yield from sleep(20)
    return Continue(number + 1)


@workflow(name="points.hoarder")
def hoarder() -> Durable[None]:
    """Runs rounds that owe undos: they are needed until the end, though the loop keeps none."""
    yield from work(7)
    yield from loop(_rent, 1, keep=0)


# --- code that changes ----------------------------------------------------------------------------------------------


@workflow(name="points.changing")
def changing() -> Durable[list[Any]]:
    """Old and new code in one: two replaced steps, a removed step, and a removed group."""
    is_new = WORLD["has new code"]
    yield from removed("points.work") if is_new else work(1)
    first = yield from work(2) if is_new and patched("first") else slow(3)
    if is_new:
        yield from removed("group")
    else:
        yield from gather(work(4), sleep(10))
    taken = yield from go.wait()
    second = yield from work(5) if is_new and patched("second") else work(6)
    return [first, taken, second, is_new and patched("first")]


@workflow(name="points.misnaming")
def misnaming() -> Durable[int]:
    """New code that removes a step under a wrong name."""
    yield from removed("points.slow") if WORLD["has new code"] else work(1)
    return (yield from go.wait())


# --- repairs --------------------------------------------------------------------------------------------------------


@workflow(name="points.apprentice")
def apprentice(number: int) -> Durable[int]:
    """Fails until the outside world works again. The time spent FAILED does not count for its timeout."""
    yield from work(number)
    return (yield from fragile(number).within(60))


@workflow(name="points.master")
def master() -> Durable[list[Any]]:
    """Has a child that fails, and one that is cancelled because of that."""
    yield from work(1)
    first, second = yield from gather(apprentice(2), waiter())
    return [first, second, (yield from work(3))]


@workflow(name="points.clerk")
def clerk() -> Durable[list[int]]:
    """Does an activity, takes an event, then does an activity that fails until the outside world works again."""
    first = yield from work(1)
    taken = yield from go.wait()
    return [first, taken, (yield from fragile(taken))]


EVERY: tuple[WorkflowDef[Any, Any], ...] = (
    collector, weaver, table, hoarder, changing, misnaming, apprentice, master, clerk,
)  # fmt: skip
