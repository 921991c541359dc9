"""Damaged rows of a real file, every column of every table: only the workflow with the damaged row is affected.

One store holds a workflow for each damage, all of one kind, and a few undamaged ones. The damage is done while no
engine is open, past the types that the schema enforces, as a broken disk would do it.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest

from durable import (
    Durable,
    DurableError,
    EngineConfig,
    Event,
    OnParentClose,
    Retry,
    StorageError,
    WorkflowCall,
    WorkflowEngine,
    WorkflowStatus,
    activity,
    pause,
    publish,
    spawn,
    workflow,
)
from durable.testing.clock import NOON, ManualClock
from tests.scenarios.kit import SOON, query

pytestmark = pytest.mark.anyio
answer = Event[int]("damaged.answer")
later = Event[int]("damaged.later")
# What a damaged column may hold, as SQL.
VALUES = [
    *("NULL", "x'ff00'", "CAST(x'ff' AS TEXT)", "'garbage'", "'[[1]]'", "1.5", "-1", "0"),
    *("9223372036854775807", "-9223372036854775808"),
]
# Which row is damaged: its table, the kind of workflow that owns it, and the condition that selects it.
OF = "workflow = (SELECT key FROM workflow WHERE id = '{}')"
PLACES = {
    "child": ("workflow", "child", "id = '{}'"),
    "working": ("workflow", "working", "id = '{}'"),
    "done": ("workflow", "done", "id = '{}'"),
    "failed": ("workflow", "failed", "id = '{}'"),
    "history": ("history", "child", OF),
    "history of one that works": ("history", "working", f"{OF} AND seq = 1"),
    "event_wait": ("event_wait", "child", OF),
    "pause": ("event_wait", "asking", OF),
    "pending_event": ("pending_event", "child", OF.replace("workflow", "target", 1)),
    "dead_letter": ("dead_letter", "done", "workflow_id = '{}'"),
    "sent_event": ("sent_event", "done", "event_id = '{}'"),
    "workflow_tag": ("workflow_tag", "working", OF),
    "progress": ("progress", "working", OF),
    "wait for a spawned child": ("event_wait", "spawner", OF),
}


@attrs.define
class World:
    """Whether activities return."""

    is_stuck: bool = True


world = World()


@activity
async def add_one(number: int) -> int:
    """Some work."""
    return number + 1


@activity
async def work() -> int:
    """Work that lasts until the next engine."""
    if world.is_stuck:
        await anyio.sleep_forever()
    return 1


@activity(retry=Retry.never())
async def fail() -> None:
    """Does not work."""
    raise ValueError("no")


@workflow(name="damaged.child")
def child(number: int) -> Durable[int]:
    """Waits for an event or an hour, whichever comes first."""
    number = yield from add_one(number)
    return (yield from answer.wait().within(3600).or_default(number))


@workflow(name="damaged.parent")
def parent() -> Durable[int]:
    """Waits for its child."""
    return 10 * (yield from child(1))


@workflow(name="damaged.spawner")
def spawner() -> Durable[int]:
    """Waits for a child that it spawned and that ends with it."""
    handle = yield from spawn(child(1), on_parent_close=OnParentClose.CANCEL)
    return (yield from handle.result())


@workflow(name="damaged.working")
def working() -> Durable[int]:
    """Has finished one step and is in the next."""
    number = yield from add_one(1)
    publish(number)
    return number + (yield from work())


@workflow(name="damaged.done")
def done() -> Durable[int]:
    """Ends with mail that it never took."""
    return (yield from answer.wait())


@workflow(name="damaged.failed")
def failed() -> Durable[None]:
    """Fails."""
    yield from fail()


@workflow(name="damaged.asking")
def asking() -> Durable[int]:
    """Asks a person, for a day."""
    return (yield from pause(returns=int, prompt={"number": 1}, expires_after=86_400))


@attrs.frozen
class Damage:
    """One value in one column of one row, and the workflow that the row belongs to."""

    id: str
    column: str
    value: str
    where: str

    def __str__(self) -> str:
        return f"{self.column} = {self.value} of {self.id}"


def damages(file: Path, table: str, kind: str, where: str) -> list[Damage]:
    """Every value in every column, each in a separate row."""
    columns = [row[1] for row in query(file, f"PRAGMA table_info({table})")]
    cases = [(column, value) for column in columns for value in VALUES]
    ids = [f"parent-{number}/0" if kind == "child" else f"{kind}-{number}" for number in range(len(cases))]
    return [Damage(id, *case, where.format(id)) for id, case in zip(ids, cases, strict=True)]


def do_damage(file: Path, table: str, all: list[Damage]) -> None:
    """Damage the rows, past the checks of the schema."""
    schema = query(file, "SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    loose = [
        (name, sql.replace("NOT NULL", "").replace(") STRICT,", ")").replace(") STRICT", ")")) for name, sql in schema
    ]
    set_schema(file, loose)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for damage in all:
            # Not every value fits in a unique index.
            with contextlib.suppress(sqlite3.IntegrityError):
                connection.execute(f"UPDATE {table} SET {damage.column} = {damage.value} WHERE {damage.where}")
    set_schema(file, schema)


def set_schema(file: Path, tables: list[tuple[str, str]]) -> None:
    """Replace what the schema says of the tables, without touching a row."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        (version,) = connection.execute("PRAGMA schema_version").fetchone()
        connection.execute("PRAGMA writable_schema = ON")
        rows = [(sql, name) for name, sql in tables]
        connection.executemany("UPDATE sqlite_master SET sql = ? WHERE name = ?", rows)
        connection.execute(f"PRAGMA schema_version = {version + 1}")


async def build(file: Path, kind: str, count: int) -> None:
    """Workflows of one kind, with all their rows, and three that are not damaged."""
    world.is_stuck = True
    config = EngineConfig(max_running_activities=1 + count, drain=0)
    async with WorkflowEngine(file, clock=ManualClock(), config=config) as engine:
        for number in range(count):
            id = f"{kind}-{number}"
            if kind == "child":
                await engine.start(parent(), id=f"parent-{number}")
                await engine.send_event(later, number, to=f"parent-{number}/0")
            elif kind == "asking":
                await engine.start(asking(), id=id)
            elif kind == "done":
                await engine.start(done(), id=id)
                await engine.send_event(later, number, to=id)
                await engine.send_event(answer, 7, to=id, event_id=id)
            else:
                calls: dict[str, Callable[[], WorkflowCall[Any]]] = {
                    "working": working,
                    "failed": failed,
                    "spawner": spawner,
                }
                await engine.start(calls[kind](), id=id, tags=["red"])
        while kind == "failed" and await engine.runs.count(status=WorkflowStatus.FAILED) < count:
            pass
        await engine.start(parent(), id="good parent")
        await engine.start(working(), id="good working")
        await engine.start(done(), id="good done")
        while not [wait for wait in (await engine.runs.describe("good working")).waits if wait.name.endswith("work")]:
            pass


async def read_history(engine: WorkflowEngine, id: str) -> object:
    """The entries with their times."""
    return [(entry.at, entry.retry_at) for entry in await engine.runs.history(id)]


# The calls made for every workflow with a damaged row; most read it, the last ones try to change it.
QUESTIONS: dict[str, Callable[[WorkflowEngine, str], Awaitable[object]]] = {
    "status": lambda engine, id: engine.query_status(id),
    "result": lambda engine, id: engine.query_result(id),
    "describe": lambda engine, id: engine.runs.describe(id),
    "history": read_history,
    "progress": lambda engine, id: engine.handle(id).progress(int),
    "watch": lambda engine, id: engine.handle(id).watch(int).next(),
    "end": lambda engine, id: engine.handle(id).result(timeout=0),
    "send again": lambda engine, id: engine.send_event(answer, 7, to=id, event_id=id),
    "send": lambda engine, id: engine.send_event(answer, 1, to=id),
    "start": lambda engine, id: engine.start(done(), id=id),
    "answer badly": lambda engine, id: engine.pauses.resume(id, "0", "one"),
    "pauses": lambda engine, id: engine.pauses.list(workflow_id=id),
    "answer": lambda engine, id: engine.pauses.resume(id, "0", 1),
    "take back": lambda engine, id: engine.pauses.cancel(id, "0"),
    "cancel": lambda engine, id: engine.cancel(id),
    "terminate": lambda engine, id: engine.terminate(id),
}


async def ask_everything(engine: WorkflowEngine, all: list[Damage]) -> None:
    """Every call about a damaged row is answered, or refused with our errors; the engine keeps working."""
    for name, question in QUESTIONS.items():
        for damage in all:
            try:
                await question(engine, damage.id)
            except StorageError as error:
                pytest.fail(f"{name} stopped the engine: {damage}: {error}")
            except (DurableError, TimeoutError):
                pass
            except Exception as error:
                pytest.fail(f"{name}: {damage}: {error!r}")


async def read_lists(engine: WorkflowEngine) -> None:
    """Lists omit rows that cannot be read, and every value in them is sound."""
    after: str | None = None
    while page := await engine.runs.list(limit=1000, after=after):
        after = page[-1].id
    last = 0
    while pauses := await engine.pauses.list(limit=1000, after=last):
        assert all(pause.since <= (pause.expires_at or pause.since) or pause.pause_id for pause in pauses)
        last = pauses[-1].number
    last = 0
    while letters := await engine.dead_letters.list(limit=1000, after=last):
        assert all(letter.sent_at <= letter.died_at or letter.died_at for letter in letters)
        last = letters[-1].id


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    ("place", "is_clean"), [*((place, True) for place in PLACES), ("child", False), ("working", False)]
)
async def test_damaged_rows_affect_no_others(tmp_path: Path, place: str, is_clean: bool) -> None:
    """Over two starts the engine works, calls about damaged rows are answered or refused, and the others end."""
    table, kind, where = PLACES[place]
    file = tmp_path / "store.db"
    async with WorkflowEngine(file):
        pass
    all = damages(file, table, kind, where)
    await build(file, kind, len(all))
    do_damage(file, table, all)
    if not is_clean:
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("UPDATE meta SET clean = 0")
    world.is_stuck = False
    for life in range(2):
        async with WorkflowEngine(file, clock=ManualClock(NOON + timedelta(hours=2 + life))) as engine:
            if life == 0:
                await engine.send_event(answer, 5, to="good done")
                good = [engine.handle(f"good {kind}") for kind in ("parent", "working", "done")]
                assert [await handle.result(timeout=SOON) for handle in good] == [20, 3, 5]
            await read_lists(engine)
            await ask_everything(engine, all)
            await engine.runs.purge(0)
