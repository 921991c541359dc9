"""Loops as a service sees them: rounds over restarts, in branches, in each other, with people and with undos."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import attrs
import pytest

from durable import (
    Break,
    Continue,
    Durable,
    EngineConfig,
    Event,
    Retry,
    WorkflowCancelled,
    WorkflowEngine,
    WorkflowFailed,
    WorkflowStatus,
    activity,
    fan_out,
    gather,
    loop,
    pause,
    race,
    saga,
    sleep,
    uuid,
    workflow,
)
from durable.testing.clock import ManualClock
from tests.scenarios.kit import SOON, Store, move, query, waiting

pytestmark = pytest.mark.anyio
item = Event[int]("loops-item")
stop = Event[None]("loops-stop")
done: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


@activity(name="loops-book")
async def book(item: str) -> str:
    """A step."""
    done.append(f"book {item}")
    return item


@activity(name="loops-release")
async def release(item: str) -> None:
    """Its undo."""
    done.append(f"release {item}")


@activity(name="loops-refuse", retry=Retry.never())
async def refuse() -> None:
    """Always fails."""
    raise LookupError("sold out")


@attrs.frozen
class Cart:
    """A state with a shape."""

    items: tuple[int, ...] = ()
    keys: tuple[str, ...] = ()


def collecting(cart: Cart) -> Durable[Continue[Cart] | Break[Cart]]:
    """A round: an event and an activity."""
    number = yield from item.wait()
    yield from book(str(number))
    cart = Cart((*cart.items, number), (*cart.keys, str(uuid())))
    return Continue(cart) if number else Break(cart)


@workflow(name="loops-collect")
def collect() -> Durable[Cart]:
    """Collects until a zero arrives."""
    return (yield from loop(collecting, Cart(), keep=2))


async def rounds(engine: WorkflowEngine, id: str) -> list[int]:
    """The rounds of the loop at 0 that the history shows."""
    return sorted({int(entry.position.split(".")[1]) for entry in await engine.runs.history(id)})


async def until(engine: WorkflowEngine, id: str, position: str) -> None:
    """Wait until the workflow waits there."""
    with anyio.fail_after(SOON):
        while position not in [wait.position for wait in (await engine.runs.describe(id)).waits]:
            await anyio.lowlevel.checkpoint()


async def test_loop_goes_on_after_restarts(store: Store) -> None:
    """Each engine continues the round in which the last one stopped: no step is repeated, no event is lost."""
    for number in range(1, 7):
        async with WorkflowEngine(store, workflows=[collect]) as engine:
            if number == 1:
                await engine.start(collect(), id="w")
            await engine.send_event(item, number, to="w")
            await until(engine, "w", f"0.{number}.1")
            assert await rounds(engine, "w") == [*range(max(0, number - 2), number + 1)]
    async with WorkflowEngine(store, workflows=[collect]) as engine:
        await engine.send_event(item, 0, to="w")
        cart = await engine.handle("w").result(timeout=SOON)
    assert cart.items == (1, 2, 3, 4, 5, 6, 0)
    assert len(set(cart.keys)) == 7
    assert done == [f"book {number}" for number in cart.items]


async def test_rounds_are_read_and_described(file: Path) -> None:
    """The history shows the last rounds with the states they began with; a wait has the line in its body."""
    async with WorkflowEngine(file, workflows=[collect]) as engine:
        await engine.start(collect(), id="w")
        for number in range(1, 5):
            await engine.send_event(item, number, to="w")
        await until(engine, "w", "0.4.1")
        entries = await engine.runs.history("w")
        assert [(entry.position, entry.kind.value, entry.name) for entry in entries[:3]] == [
            ("0.2.0", "loop", "state"),
            ("0.2.1", "event", "loops-item"),
            ("0.2.2", "activity", "loops-book"),
        ]
        assert '"items":[1,2]' in entries[0].outcome
        described = await engine.runs.describe("w")
        line = collecting.__code__.co_firstlineno + 2
        assert (described.waits[0].source or "").endswith(f"test_loops.py:{line}")
        assert described.history_length == len(entries) == 7
    assert query(file, "SELECT count(*) FROM history") == [(7,)]


async def test_loops_in_branches_and_in_each_other(store: Store) -> None:
    """Two nested loops run side by side, and a restart in the middle finds each in its round."""

    def outer(name: str) -> Any:
        def inner(number: int) -> Durable[Continue[int] | Break[int]]:
            yield from book(f"{name}{number}")
            yield from item.wait(f"{name}{number}")
            return Continue(number + 1) if number % 3 < 2 else Break(number + 1)

        def body(number: int) -> Durable[Continue[int] | Break[str]]:
            number = yield from loop(inner, number, keep=0)
            return Continue(number) if number < 6 else Break(f"{name} {number}")

        return loop(body, 0, keep=0)

    @workflow(name="loops-lines")
    def lines() -> Durable[list[str]]:
        return (yield from fan_out(outer, ["a", "b"]))

    places = [f"{name}{number}" for number in range(6) for name in "ab"]
    async with WorkflowEngine(store, workflows=[lines]) as engine:
        await engine.start(lines(), id="w")
        for place in places[:7]:
            await engine.send_event(item, 0, to="w", key=place)
        await until(engine, "w", "0.0.0.1.1.1.2")
        await until(engine, "w", "0.1.0.1.1.0.1")
    async with WorkflowEngine(store, workflows=[lines]) as engine:
        for place in places[7:]:
            await engine.send_event(item, 0, to="w", key=place)
        assert await engine.handle("w").result(timeout=SOON) == ["a 6", "b 6"]
    assert sorted(done) == sorted(f"book {place}" for place in places)


async def test_loop_that_loses_leaves_its_event_behind(store: Store) -> None:
    """A loop that lost a race no longer waits, and later events are kept for the next wait."""

    def serving(served: int) -> Durable[Continue[int]]:
        yield from item.wait()
        return Continue(served + 1)

    @workflow(name="loops-serve")
    def serve() -> Durable[list[Any]]:
        won = yield from race(service=loop(serving, 0), stopped=stop.wait())
        return [won.key, (yield from item.wait())]

    async with WorkflowEngine(store, workflows=[serve]) as engine:
        await engine.start(serve(), id="w")
        for number in range(3):
            await engine.send_event(item, number, to="w")
    async with WorkflowEngine(store, workflows=[serve]) as engine:
        await engine.send_event(stop, None, to="w")
        assert [wait.position for wait in (await engine.runs.describe("w")).waits] == ["1"]
        await engine.send_event(item, 7, to="w")
        assert await engine.handle("w").result(timeout=SOON) == ["stopped", 7]


async def test_people_are_asked_round_after_round(store: Store) -> None:
    """Each round asks its question, which can be answered after any restart; nobody is asked twice."""

    def asking(answers: list[str]) -> Durable[Continue[list[str]] | Break[list[str]]]:
        answer = yield from pause(returns=str, prompt=len(answers))
        answers.append(answer)
        return Continue(answers) if answer else Break(answers)

    @workflow(name="loops-ask")
    def ask() -> Durable[list[str]]:
        return (yield from loop(asking, [], keep=0))

    async with WorkflowEngine(store, workflows=[ask]) as engine:
        await engine.start(ask(), id="w")
    for number, text in enumerate(["one", "two", ""]):
        async with WorkflowEngine(store, workflows=[ask]) as engine:
            (question,) = await engine.pauses.list()
            assert question.prompt == number
            await engine.pauses.resume("w", question.pause_id, text)
            if not text:
                assert await engine.handle("w").result(timeout=SOON) == ["one", "two", ""]


@pytest.mark.parametrize("ends", ["fails", "is cancelled"])
async def test_what_rounds_have_done_is_undone(store: Store, ends: str) -> None:
    """The bookings of all rounds are undone in reverse order, including rounds before a restart."""

    def booking(number: int) -> Durable[Continue[int]]:
        yield from book(str(number)).undo(release)
        if (yield from item.wait()) < 0:
            yield from refuse()
        return Continue(number + 1)

    @workflow(name="loops-tour")
    def tour() -> Durable[None]:
        yield from saga(loop(booking, 0, keep=0))

    async with WorkflowEngine(store, workflows=[tour]) as engine:
        await engine.start(tour(), id="w")
        for _ in range(3):
            await engine.send_event(item, 1, to="w")
        await until(engine, "w", "0.0.0.3.2")
    async with WorkflowEngine(store, workflows=[tour]) as engine:
        if ends == "fails":
            await engine.send_event(item, -1, to="w")
        else:
            await engine.cancel("w")
        with pytest.raises((WorkflowFailed, WorkflowCancelled)):
            await engine.handle("w").result(timeout=SOON)
    assert done == [f"book {number}" for number in range(4)] + [f"release {number}" for number in (3, 2, 1, 0)]


async def test_limits_hold_over_rounds_and_restarts(store: Store) -> None:
    """A limit in a round starts with the round, one around the loop with the loop, whatever was trimmed."""

    def waiting_a_while(number: int) -> Durable[Continue[int]]:
        yield from item.wait().within(10).or_default(0)
        return Continue(number + 1)

    @workflow(name="loops-limits")
    def limits() -> Durable[str]:
        return (yield from loop(waiting_a_while, 0, keep=0).within(35).or_default("over"))

    clock = ManualClock()
    async with WorkflowEngine(store, workflows=[limits], clock=clock) as engine:
        await engine.start(limits(), id="w")
        await waiting(engine, "w", "timer")
    for number in range(1, 7):
        async with WorkflowEngine(store, workflows=[limits], clock=clock) as engine:
            await move(engine, clock, 5)
            if number % 2 == 0:
                await until(engine, "w", f"0.0.0.{number // 2}.1.1.0")
    async with WorkflowEngine(store, workflows=[limits], clock=clock) as engine:
        await move(engine, clock, 5)
        assert await engine.handle("w").result(timeout=SOON) == "over"


async def test_state_that_is_too_large_fails_the_loop_only(store: Store) -> None:
    """The error names the loop; the workflow may catch it and continue."""

    def growing(text: str) -> Durable[Continue[str]]:
        yield from sleep(0.001)
        return Continue(text + text)

    @workflow(name="loops-grow")
    def grow() -> Durable[str]:
        try:
            yield from loop(growing, "0123456789")
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:28]
        return ""

    config = EngineConfig(max_payload_bytes=1000)
    async with WorkflowEngine(store, workflows=[grow], config=config) as engine:
        handle = await engine.start(grow())
        assert await handle.result(timeout=SOON) == "PayloadTooLarge: loop: state"


async def test_children_in_rounds(store: Store) -> None:
    """A round may wait for a child, with an id per round, and two loops in a gather wait for theirs."""

    @workflow(name="loops-child")
    def child(number: int) -> Durable[int]:
        return number + (yield from item.wait())

    def calling(state: tuple[int, int]) -> Durable[Continue[tuple[int, int]] | Break[int]]:
        first, total = state
        total += yield from child(first)
        return Continue((first + 1, total)) if first % 10 < 2 else Break(total)

    @workflow(name="loops-parents")
    def parents() -> Durable[list[int]]:
        return [*(yield from gather(loop(calling, (0, 0), keep=0), loop(calling, (10, 0), keep=0)))]

    ids = [f"w/0.{branch}.0.{number}.{min(number, 1)}" for number in range(3) for branch in (0, 1)]
    async with WorkflowEngine(store, workflows=[parents, child]) as engine:
        await engine.start(parents(), id="w")
        for id in ids[:3]:
            await engine.send_event(item, 100, to=id)
    async with WorkflowEngine(store, workflows=[parents, child]) as engine:
        for id in ids[3:]:
            await engine.send_event(item, 100, to=id)
        assert await engine.handle("w").result(timeout=SOON) == [303, 333]
        assert {await engine.query_status(id) for id in ids} == {WorkflowStatus.SUCCEEDED}
