"""A process that opens corrupt stores, watched by an audit hook: `python -m tests.fuzz.worker FOLDER SEED ROUNDS LOOP`.

The hook cannot be removed, so it needs its own process. It prints one JSON object: what was done, and what went wrong.
"""

from __future__ import annotations

import json
import logging
import random
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import anyio
import attrs

from durable import (
    DurableError,
    EngineClosed,
    EngineConfig,
    InvariantViolated,
    StorageError,
    WorkflowEngine,
)
from durable.testing.clock import ManualClock
from tests.fuzz import flows
from tests.fuzz.hook import Hook
from tests.fuzz.mutations import mutate, mutate_number

# Workflows with these numbers and above are left alone, and must succeed.
SPOILT_BELOW = 9
ROWS_A_ROUND = 60
CONTROLS = range(SPOILT_BELOW, flows.COUNT)
TABLES = {
    "workflow": ("key",),
    "history": ("workflow", "seq"),
    "event_wait": ("workflow", "position"),
    "pending_event": ("serial",),
    "dead_letter": ("id",),
    "sent_event": ("event_id",),
    "workflow_tag": ("tag", "workflow"),
    "progress": ("workflow",),
    "schedule": ("key",),
}
# Most of the columns that hold users' values.
MOST = (
    ("workflow", "input"), ("workflow", "result"), ("workflow", "error"), ("workflow", "tags"), ("workflow", "cursors"),
    ("history", "outcome"), ("history", "outcome"), ("pending_event", "payload"), ("dead_letter", "payload"),
    ("sent_event", "reply"), ("progress", "value"),
)  # fmt: skip


@attrs.define
class Book:
    """What was done in all rounds, and what went wrong."""

    rows: int = 0
    questions: int = 0
    refused: Counter[str] = attrs.field(factory=Counter)
    ends: Counter[str] = attrs.field(factory=Counter)
    violations: list[str] = attrs.field(factory=list)
    logged: int = 0


class Listener(logging.Handler):
    """Counts log lines, and records the end of an engine."""

    def __init__(self, book: Book) -> None:
        super().__init__()
        self.book = book

    def emit(self, record: logging.LogRecord) -> None:
        self.book.logged += 1
        if record.levelno >= logging.CRITICAL:
            self.book.violations.append(f"the engine stopped: {record.getMessage():.500}")


def spoil(path: Path, chance: random.Random, book: Book) -> list[str]:
    """Corrupt texts in rows of some workflows. Returns what was done."""
    done: list[str] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        names = dict(connection.execute("SELECT key, id FROM workflow").fetchall())
        columns = [
            (table, row[1])
            for table in TABLES
            for row in connection.execute(f"PRAGMA table_info({table})")
            # Another target would move an event into the mailbox of a workflow that is left alone.
            if row[2] == "TEXT" or row[1] not in (*TABLES[table], "target")
        ]
        if chance.random() < 0.5:
            connection.execute("UPDATE meta SET clean = 0")
        while len(done) < ROWS_A_ROUND:
            table, column = chance.choice(MOST if chance.random() < 0.7 else columns)
            row = _some_row(connection, table, names, chance)
            if row is None or row[column] is None:
                continue
            is_text = isinstance(row[column], str)
            data: Any = mutate(chance, row[column]) if is_text else mutate_number(chance, row[column])
            where = " AND ".join(f"{name} = ?" for name in TABLES[table])
            try:
                # The columns are strict, so bytes must become text, whatever they are.
                sql = f"UPDATE {table} SET {column} = CAST(? AS {'TEXT' if is_text else 'INTEGER'}) WHERE {where}"
                changed = connection.execute(sql, (data, *(row[name] for name in TABLES[table]))).rowcount
            except sqlite3.IntegrityError:
                continue
            if not changed:
                # Its key is corrupt already.
                continue
            done.append(f"{table}.{column} of {[row[name] for name in TABLES[table]]} := {data!r:.60}")
    book.rows += len(done)
    return done


def _some_row(
    connection: sqlite3.Connection, table: str, names: dict[int, str], chance: random.Random
) -> dict[str, Any] | None:
    connection.text_factory = lambda raw: raw.decode(errors="replace")
    cursor = connection.execute(f"SELECT * FROM {table}")
    columns = [column[0] for column in cursor.description]
    row = dict(zip(columns, chance.choice(cursor.fetchall()), strict=True))
    key = row.get("key", row.get("workflow", row.get("target")))
    id = names.get(key) if isinstance(key, int) else None
    if id is not None and (_number(id) in CONTROLS or (id[0] not in "pqst" and chance.random() < 0.6)):
        return None
    return row


def _number(id: str) -> int:
    digits = id[1:].partition("/")[0]
    return int(digits) if digits.isdecimal() else -1


class Dead(Exception):
    """The engine has stopped or does not answer, so the round is over."""


async def ask(book: Book, question: Callable[..., Awaitable[Any]], *args: Any, **more: Any) -> Any:
    """Ask the engine: the outcome must be an answer or one of our errors."""
    book.questions += 1
    call = f"{question.__qualname__}{args}"
    try:
        with anyio.fail_after(30):
            return await question(*args, **more)
    except (EngineClosed, StorageError, InvariantViolated, TimeoutError) as error:
        book.violations.append(f"{call}: {error!r:.500}")
        raise Dead from None
    except DurableError as error:
        book.refused[type(error).__name__] += 1
    except Exception as error:
        book.violations.append(f"{call}: not an error of ours: {error!r:.500}")
    return None


async def examine(engine: WorkflowEngine, clock: ManualClock, ids: list[str], book: Book) -> None:
    """Read every row of the store, and let every workflow that can continue."""
    for id in ids:
        await ask(book, engine.runs.describe, id)
        await ask(book, engine.runs.history, id)
        await ask(book, engine.query_result, id)
        await ask(book, engine.handle(id).progress, flows.Order)
        number = _number(id)
        if id == f"q{number}/0":
            await ask(book, engine.send_event, flows.go, number, to=id)
        if id == f"p{number}":
            await ask(book, engine.send_event, flows.go, number, to=id, event_id=f"go {id}")
            # This event was sent before with this id, so its first answer is read.
            await ask(book, engine.send_event, flows.mail, flows.an_order(number), to=id, event_id=f"mail {id}")
    for _ in range(2 * flows.COUNT):
        await ask(book, engine.send_event, flows.shared, 1)
    clock.advance(3601)
    await ask(book, engine.runs.list, limit=1000)
    await ask(book, engine.runs.list, tag="all")
    for schedule in await ask(book, engine.schedules.list, upcoming=5) or ():
        for question in (engine.schedules.pause, engine.schedules.resume, engine.schedules.trigger):
            await ask(book, question, schedule.name)
    for letter in await ask(book, engine.dead_letters.list) or ():
        await ask(book, engine.dead_letters.replay, letter.id)
    await ask(book, engine.recover)


async def check_controls(engine: WorkflowEngine, book: Book) -> None:
    """The workflows that were left alone succeed, and so does a new one."""
    wanted: dict[str, Any] = {f"p{number}": flows.expected(number) for number in CONTROLS}
    wanted |= {f"q{number}": 2 * number for number in CONTROLS} | {f"s{number}": number + 1 for number in CONTROLS}
    wanted |= {f"t{number}": number for number in CONTROLS}
    for id, value in wanted.items():
        if await ask(book, engine.handle(id).result) != value:
            book.violations.append(f"{id}, which nobody touched, did not end well")
    fresh = await ask(book, engine.start, flows.child(5), id="fresh")
    if fresh is None or await ask(book, fresh.result) != flows.an_order(5):
        book.violations.append("a new workflow did not end well")


async def end_all(engine: WorkflowEngine, ids: list[str], chance: random.Random, book: Book) -> None:
    """Record the status of every workflow, and end the unfinished ones."""
    for id in ids:
        status = await ask(book, engine.query_status, id)
        book.ends["unreadable" if status is None else status.value] += 1
        if status is not None and not status.is_terminal:
            await ask(book, chance.choice((engine.cancel, engine.terminate)), id)


async def one_round(path: Path, seed: str, book: Book, hook: Hook) -> None:
    """Corrupt a store, open it, read everything, end everything."""
    chance = random.Random(seed)
    before = len(book.violations)
    with closing(sqlite3.connect(path)) as connection:
        ids = [id for (id,) in connection.execute("SELECT id FROM workflow ORDER BY key")]
    done = spoil(path, chance, book)
    clock = ManualClock()
    with hook.watching():
        # Without its socket, which is a file that comes and goes.
        config = EngineConfig(control=False)
        async with WorkflowEngine(path, workflows=flows.ALL, codec=flows.CODEC, clock=clock, config=config) as engine:
            with suppress(Dead):
                await examine(engine, clock, ids, book)
                await check_controls(engine, book)
                await end_all(engine, ids, chance, book)
    if len(book.violations) > before:
        book.violations.append(f"in the round of seed {seed!r}, with {done}")


def main(folder: Path, seed: int, rounds: int, loop: str) -> dict[str, Any]:
    """Run all rounds."""
    hook = Hook(str(folder))
    sys.addaudithook(hook)
    book = Book()
    logging.getLogger("durable").addHandler(Listener(book))
    logging.getLogger("durable").propagate = False
    anyio.run(flows.fill, folder / "template.db", ManualClock(), backend=loop)
    for number in range(-1, rounds):
        path = folder / f"round{number}.db"
        shutil.copy(folder / "template.db", path)
        # The first round loads what Python loads on first use, such as the formatting of tracebacks.
        rehearsal = Hook(str(folder)) if number < 0 else hook
        anyio.run(one_round, path, f"{seed}/{number}", book, rehearsal, backend=loop)
        path.unlink()
        if book.violations:
            break
    return {
        "rows": book.rows,
        "questions": book.questions,
        "refused": book.refused,
        "ends": book.ends,
        "logged": book.logged,
        "audited": hook.events,
        "offences": hook.offences[:20],
        "violations": book.violations[:20],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])) + "\n")
