"""Named branches in what is stored: steps, children, pauses, loops and undos inside them, and old runs."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from durable import Break, Continue, Durable, gather, loop, pause, race, saga, workflow
from durable.backends.base import Backend
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.backends.sqlite import SqliteBackend
from durable.model.records import BY_NUMBER
from durable.runner.definitions import WorkflowDef
from tests.engine.asking import ids, resume
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, clean, go, waiter, work
from tests.engine.mending import fork


def _swapped(is_swapped: bool) -> WorkflowDef[..., Any]:
    @workflow(name="named.ships")
    def ships() -> Durable[list[object]]:
        def left() -> Durable[int]:
            yield from work(1)
            return (yield from work(11))

        branches: dict[str, Any] = {"left": left(), "right": go.wait()}
        names = reversed(branches) if is_swapped else branches
        won = yield from race(**{name: branches[name] for name in names})
        return [won.key, won.value]

    return ships


@pytest.mark.parametrize("after", [0, 1])
def test_swapped_keywords_change_no_winner(after: int) -> None:
    """New code that swaps the keywords of a race continues with what each branch has recorded."""
    engine = DirectEngine(_swapped(False), *EVERY)
    engine.start(_swapped(False)())
    for _ in range(after):
        engine.finish(engine.activities[0], 1)
    engine.restart(_swapped(True), *EVERY)
    while engine.activities:
        engine.finish(engine.activities[0], 7)
    assert engine.result() == ["left", 7]


@workflow(name="named.everything")
def everything() -> Durable[object]:
    """Uses each kind of step in a named branch."""

    def rounds(count: int) -> Durable[Continue[int] | Break[int]]:
        yield from work(count)
        return Continue(count + 1) if count < 3 else Break(count)

    def fails() -> Durable[None]:
        yield from saga(gather(work(7).undo(lambda _: _unbook()), go.wait("never").within(5)))

    def _unbook() -> Durable[None]:
        yield from waiter()

    names: dict[str, Any] = {
        "u": waiter(),
        "12": pause(returns=int, prompt="?"),
        "a.b": loop(rounds, 0, keep=0),
        "x": fails(),
    }
    return (yield from race(**names)).key


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_everything_in_named_branches_over_restarts(kind: str, tmp_path: object) -> None:
    """Every restart finds the children, pauses, loops and undos in branches with odd names."""
    store = MemoryStore()

    def make() -> Backend:
        return MemoryBackend(store) if kind == "memory" else SqliteBackend(f"{tmp_path}/store.db")

    engine = DirectEngine(everything, *EVERY, make=make)
    engine.start(everything())
    assert ids(engine) == ["0.%312.0"]
    assert engine.record("w/0.%75.0").parent_place == "0.%75.0"
    for number in range(3):
        engine.restart(everything, *EVERY)
        running = [effect for effect in engine.activities if effect.position.startswith("0.a%2Eb.0.")]
        engine.finish(running[0], number)
    booked = next(effect for effect in engine.activities if effect.position.startswith("0.x."))
    engine.finish(booked, 7)
    engine.restart(everything, *EVERY)
    engine.advance(5)
    undo = next(id for id in ("w/0.x.0.u.0.0",) if engine.backend.workflow(id))
    engine.restart(everything, *EVERY)
    assert engine.record(undo).parent_place == "0.x.0.u.0.0"
    assert resume(engine, "0.%312.0", 3) is None
    engine.send(go, 1, to=undo)
    assert engine.result() == "12"
    engine.backend.close()


def test_old_run_goes_on_by_number() -> None:
    """A run stored when positions were numbers only keeps them for its child, its pause and its forks."""

    @workflow(name="named.old")
    def old() -> Durable[object]:
        return (yield from race(left=waiter(), right=pause(returns=int, prompt="?"), work=work(1))).key

    store = MemoryStore()
    engine = DirectEngine(old, *EVERY, make=lambda: MemoryBackend(store))
    engine.start(old(), delay=1)
    record = engine.record()
    store.workflows[record.key] = attrs.evolve(record, position_format=BY_NUMBER)
    engine.restart(old, *EVERY)
    engine.advance(1)
    assert (ids(engine), [effect.position for effect in engine.activities]) == (["0.1.0"], ["0.2.0"])
    engine.restart(old, *EVERY)
    engine.send(go, 1, to="w/0.0.0")
    assert engine.result() == "left"
    fork(engine, "0")
    assert ids(engine) == ["0.1.0"]
    assert engine.record("f").position_format == BY_NUMBER


def test_child_in_an_undo_can_be_read_back(tmp_path: object) -> None:
    """The place of a child that an undo started can be read back."""

    @workflow(name="named.undoes")
    def undoes() -> Durable[None]:
        yield from work(1).undo(lambda _: waiter())
        yield from clean()

    engine = DirectEngine(undoes, *EVERY, make=lambda: SqliteBackend(f"{tmp_path}/store.db"))
    engine.start(undoes())
    engine.finish(engine.activities[0], 1)
    engine.fail(engine.activities[0], LookupError("no"))
    engine.restart(undoes, *EVERY)
    assert engine.record("w/u.0.0").parent_place == "u.0.0"
    engine.send(go, 1, to="w/u.0.0")
    assert engine.status().is_terminal
    engine.backend.close()
