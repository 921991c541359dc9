"""Helpers of several scenarios: move the clock, wait until a workflow waits, read a store's file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio

from durable import EngineClosed, Waiting, WorkflowEngine
from durable.backends.memory import MemoryBackend
from durable.testing.clock import ManualClock

Store = Path | MemoryBackend
# Longer than anything here takes; reached only when something hangs.
SOON = 10.0


async def move(engine: WorkflowEngine, clock: ManualClock, duration: timedelta | float) -> None:
    """Let time pass, and let the engine notice."""
    clock.advance(duration)
    await engine.query_status("nobody")


async def waiting(engine: WorkflowEngine, id: str, kind: str, attempt: int = 1) -> Waiting:
    """The wait of this kind, as soon as the workflow has one; for an activity, at this attempt."""
    with anyio.fail_after(SOON):
        while True:
            for wait in (await engine.runs.describe(id)).waits:
                if wait.kind == kind and wait.attempt >= attempt:
                    return wait


async def refusing(engine: WorkflowEngine) -> None:
    """Wait until the engine refuses calls because it is closing."""
    with anyio.fail_after(SOON), suppress(EngineClosed):
        while True:
            await engine.query_status("nobody")


def query(path: Path, sql: str, parameters: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
    """Read rows of a store's file beside its engine."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute(sql, tuple(parameters)).fetchall()


def contents(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table."""
    tables = [name for (name,) in query(path, "SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {name: query(path, f'SELECT * FROM "{name}"') for name in tables}


def row_count(path: Path) -> int:
    """The number of rows in all tables."""
    return sum(len(rows) for rows in contents(path).values())
