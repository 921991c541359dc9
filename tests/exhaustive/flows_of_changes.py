"""More canonical workflows: loops, code that changes, and what operators set right."""

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

# Which code the process runs, and whether the world outside has been mended. A script begins without both.
WORLD = {"has new code": False, "is mended": False}


@activity(name="points.fragile", retry=Retry.never())
def fragile(number: int) -> int:
    """Fails as long as the world outside is not mended."""
    if not WORLD["is mended"]:
        raise Declined(number)
    return number * 1000


# --- loops ----------------------------------------------------------------------------------------------------------


def _collect(state: list[int]) -> Durable[Continue[list[int]] | Break[list[int]]]:
    """An event and an activity in each of four rounds."""
    done = yield from work((yield from go.wait()))
    return Continue([*state, done]) if len(state) < 3 else Break([*state, done])


@workflow(name="points.collector")
def collector(keep: int) -> Durable[list[Any]]:
    """A loop of which most is trimmed, and a step behind it."""
    nothing: list[int] = []
    found = yield from loop(_collect, nothing, keep=keep)
    return [found, (yield from work(9))]


def _tick(left: int) -> Durable[Continue[int] | Break[str]]:
    """A timer in each round, but for every second one, which learns nothing."""
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
    """Loops in branches, one of which would never end and loses."""
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
    """A loop in a loop."""
    nothing: list[list[int]] = []
    return (yield from loop(_row, nothing, keep=0))


def _rent(number: int) -> Durable[Continue[int]]:
    """A step that is undone; the third round fails."""
    yield from work(number).undo(work)
    if number == 3:
        raise Declined(number)
    yield from sleep(20)
    return Continue(number + 1)


@workflow(name="points.hoarder")
def hoarder() -> Durable[None]:
    """Rounds that owe undos are needed until the end, though the loop would keep none."""
    yield from work(7)
    yield from loop(_rent, 1, keep=0)


# --- code that changes ----------------------------------------------------------------------------------------------


@workflow(name="points.changing")
def changing() -> Durable[list[Any]]:
    """Old and new code in one: two steps that were replaced, one that is gone, and a group that is gone."""
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
    """New code that calls the step that is gone by a wrong name."""
    yield from removed("points.slow") if WORLD["has new code"] else work(1)
    return (yield from go.wait())


# --- what operators set right ---------------------------------------------------------------------------------------


@workflow(name="points.apprentice")
def apprentice(number: int) -> Durable[int]:
    """Fails until the world outside is mended; the time in which it lies there does not count for the limit."""
    yield from work(number)
    return (yield from fragile(number).within(60))


@workflow(name="points.master")
def master() -> Durable[list[Any]]:
    """A child that fails, and one that is cancelled because of that."""
    yield from work(1)
    first, second = yield from gather(apprentice(2), waiter())
    return [first, second, (yield from work(3))]


@workflow(name="points.clerk")
def clerk() -> Durable[list[int]]:
    """An activity, an event, and an activity that fails until the world outside is mended."""
    first = yield from work(1)
    taken = yield from go.wait()
    return [first, taken, (yield from fragile(taken))]


EVERY: tuple[WorkflowDef[Any, Any], ...] = (
    collector, weaver, table, hoarder, changing, misnaming, apprentice, master, clerk,
)  # fmt: skip
