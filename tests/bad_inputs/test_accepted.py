"""Inputs that look bad but are valid data: they are accepted and come back unchanged."""

from __future__ import annotations

import enum
import unicodedata
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from durable import (
    Codec,
    Delivered,
    Durable,
    Event,
    Queued,
    TimedOut,
    Won,
    WorkflowEngine,
    WorkflowNotFound,
    WorkflowStatus,
    call,
    now,
    race,
    sleep,
    sleep_until,
    workflow,
)
from durable.testing.clock import NOON, ManualClock
from tests.bad_inputs.flows import echo, go, waiter
from tests.scenarios.kit import SOON, contents, move, waiting

pytestmark = pytest.mark.anyio
other = Event[int]("bad.other")
STRANGE = {
    5: ("'; drop table workflow;--", '"; DROP TABLE history', "%", "_"),
    8: (" a ", "a\n", "\x1b[31mred", "\t", "\u202e"),
    9: ("../../x", "<script>alert(1)</script>", "C:\\x", "a/b/0"),
}


@pytest.mark.parametrize(("number", "id"), [(number, id) for number, ids in STRANGE.items() for id in ids])
async def test_f5_f8_f9_strange_ids_are_data(tmp_path: Path, number: int, id: str) -> None:
    """An id, a tag and a key may hold any other text; they come back unchanged, and messages show them escaped."""
    async with WorkflowEngine(tmp_path / "store.db") as engine:
        handle = await engine.start(waiter(number), id=id, tags=[id])
        assert await engine.send_event(go, 1, to=id, event_id=id) == Delivered((id,))
        assert await handle.result(timeout=SOON) == number + 1
        assert [run.id for run in await engine.runs.list(tag=id)] == [id]
        with pytest.raises(WorkflowNotFound) as caught:
            await engine.cancel(id + "\x1b\n")
        assert str(caught.value).isprintable()


async def test_f6_ids_are_compared_as_they_are(tmp_path: Path) -> None:
    """Ids that differ only in case or in their Unicode form are different ids."""
    ids = ["é", unicodedata.normalize("NFD", "é"), "É", "a", "A"]
    async with WorkflowEngine(tmp_path / "store.db") as engine:
        for number, id in enumerate(ids):
            await engine.start(waiter(number), id=id)
        assert await engine.runs.count() == len(ids)
        for number, id in enumerate(ids):
            await engine.send_event(go, 0, to=id)
            assert await engine.handle(id).result(timeout=SOON) == number


class Color(enum.Enum):
    """An enum."""

    RED = "red"


EXACT: list[tuple[int, Any, Any]] = [
    (27, int, 1 << 63),
    (27, int, -(10**4000)),
    (27, list[int], [1 << 64, -(1 << 64)]),
    (28, dict[int, str], {1: "a", -5: "b"}),
    (28, dict[tuple[int, str], int], {(1, "a"): 2}),
    (29, tuple[int, ...], (1, 2)),
    (29, set[int], {1, 2}),
    (29, bytes, b"\0\xff"),
    (29, Decimal, Decimal("1.50")),
    (29, datetime, datetime(2031, 1, 1)),
    (29, datetime, datetime(2031, 1, 1, tzinfo=timezone(timedelta(hours=2)))),
    (29, date, date(2031, 1, 1)),
    (29, UUID, UUID(int=5)),
    (29, Color, Color.RED),
]


@pytest.mark.parametrize(("number", "annotation", "value"), EXACT)
def test_f27_f28_f29_annotated_values_come_back_exactly(number: int, annotation: Any, value: Any) -> None:
    """What is annotated with its type is stored and read back as the same value of the same type."""
    coder = Codec().coder(annotation, f"F{number}")
    back = coder.unpack(coder.pack(value)[0])
    assert (back, type(back)) == (value, type(value))


async def test_f34_f35_values_are_not_shared(tmp_path: Path) -> None:
    """Changing an argument or a result afterwards changes nothing that is stored or replayed."""
    returned: list[int] = [1]

    def give() -> list[int]:
        return returned

    @workflow(name="bad.changing")
    def changing(values: list[int]) -> Durable[list[list[int]]]:
        seen = list(values)
        values.append(99)
        result = yield from call(give, name="give")
        result.append(77)
        yield from go.wait()
        return [seen, result]

    numbers = [5]
    async with WorkflowEngine(tmp_path / "store.db", workflows=[changing]) as engine:
        await engine.start(changing(numbers), id="a")
        numbers.append(6)
        await waiting(engine, "a", "event")
        returned.append(2)
    async with WorkflowEngine(tmp_path / "store.db", workflows=[changing]) as engine:
        await engine.send_event(go, 0, to="a")
        assert await engine.handle("a").result(timeout=SOON) == [[5], [1, 77]]


@workflow(name="bad.times")
def times(instant: datetime) -> Durable[list[str]]:
    """Steps that are due immediately."""
    before = now()
    seen = []
    for step in (sleep(0), sleep_until(instant), sleep(timedelta(0))):
        seen.append("same" if (yield from step) == before else "later")
    return seen


async def test_f40_f41_what_is_due_does_not_suspend() -> None:
    """`sleep(0)` and a deadline in the past pass immediately and in order, and leave no entry behind."""
    async with WorkflowEngine("memory://", clock=ManualClock()) as engine:
        handle = await engine.start(times(NOON - timedelta(days=400)), id="a")
        assert await handle.result(timeout=SOON) == ["same"] * 3
        assert await engine.runs.history("a") == []


async def test_f44_short_limit_is_honoured() -> None:
    """A limit of a microsecond is exactly that: not zero, and not rounded up."""

    @workflow(name="bad.short")
    def short() -> Durable[str]:
        try:
            yield from go.wait().within(0.000001)
        except TimedOut as error:
            return f"{error.seconds:.6f}"
        return "in time"

    clock = ManualClock()
    async with WorkflowEngine("memory://", clock=clock) as engine:
        handle = await engine.start(short(), id="a")
        assert (await engine.query_status("a")) is WorkflowStatus.SUSPENDED
        await move(engine, clock, 0.000001)
        assert await handle.result(timeout=SOON) == "0.000001"


async def test_f48_event_may_come_before_its_workflow() -> None:
    """With `allow_unstarted` an event for an unknown id is kept until that workflow starts."""
    async with WorkflowEngine("memory://") as engine:
        assert await engine.send_event(go, 5, to="later", allow_unstarted=True) == Queued()
        assert await (await engine.start(waiter(1), id="later")).result(timeout=SOON) == 6


async def test_f50_same_event_twice_is_one_event(tmp_path: Path) -> None:
    """The same event id with the same event again gets the first answer, writes nothing and is delivered once."""
    file = tmp_path / "store.db"
    async with WorkflowEngine(file) as engine:
        await engine.start(waiter(), id="a")
        first = await engine.send_event(go, 1, to="a", event_id="once")
        before = contents(file)
        assert await engine.send_event(go, 1, to="a", event_id="once") == first
        assert contents(file) == before
        assert await engine.handle("a").result(timeout=SOON) == 1


async def test_f52_first_branch_wins_when_both_events_are_there(tmp_path: Path) -> None:
    """Of two waits whose events are both pending the one written first wins, on replay too; the other event stays."""

    @workflow(name="bad.both")
    def both() -> Durable[Any]:
        won: Won[int] = yield from race(go=go.wait(), other=other.wait())
        yield from sleep(60)
        return [won.key, (yield from other.wait())]

    clock = ManualClock()
    file = tmp_path / "store.db"
    async with WorkflowEngine(file, workflows=[both], clock=clock) as engine:
        for event in (other, go):
            await engine.send_event(event, 1, to="a", allow_unstarted=True)
        await engine.start(both(), id="a")
    async with WorkflowEngine(file, workflows=[both], clock=clock) as engine:
        await move(engine, clock, 60)
        assert await engine.handle("a").result(timeout=SOON) == ["go", 1]


async def test_f53_cancel_again_is_harmless() -> None:
    """A repeated cancel raises nothing; after the end, cancel and terminate return False."""
    async with WorkflowEngine("memory://") as engine:
        await engine.start(waiter(), id="a")
        assert [await engine.cancel("a"), await engine.cancel("a"), await engine.terminate("a")] == [True, False, False]
        assert await engine.query_status("a") is WorkflowStatus.CANCELLED


async def test_f62_filters_are_bound(tmp_path: Path) -> None:
    """A filter with quotes or wildcards is compared as it is."""
    async with WorkflowEngine(tmp_path / "store.db") as engine:
        await (await engine.start(echo(1), id="a", tags=["red"])).result(timeout=SOON)
        for filter in ("%", "re%", "_ed", "' OR '1'='1", 'red" --', "*"):
            assert await engine.runs.list(tag=filter) == []
            assert await engine.runs.list(name=filter) == []
            assert await engine.runs.count(tag=filter) == 0
        assert await engine.runs.count(tag="red", name=echo.name) == 1


@pytest.mark.parametrize(("day", "ticks"), [("03-28", ["03:00", "02:30"]), ("10-24", ["02:30", "02:30"])])
async def test_f47_hour_that_is_missing_or_comes_twice(day: str, ticks: list[str]) -> None:
    """A daily schedule at 2:30 ticks once on the day without that time, and once on the day that has it twice."""
    clock = ManualClock(datetime.fromisoformat(f"2026-{day}T12:00+00:00"))
    async with WorkflowEngine("memory://", clock=clock) as engine:
        made = await engine.schedules.create("s", waiter(), cron="30 2 * * *", timezone="Europe/Berlin")
        assert [f"{tick:%H:%M}" for tick in made.next_runs[:2]] == ticks
        assert made.next_runs[1].date() - made.next_runs[0].date() == timedelta(days=1)
