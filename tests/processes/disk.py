"""A service whose disk is full: `python disk.py WHAT STORE`, where no file of the process may grow beyond a limit.

Prints one JSON line. The limit is the process's own (RLIMIT_FSIZE), so it hits the database and its WAL as a full disk
would, in the middle of a write.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import sys

from durable import Durable, EngineConfig, Event, StorageUnavailable, WorkflowEngine, workflow

answer = Event[int]("disk.answer")


@workflow(name="disk.wait")
def wait_for_answer(text: str) -> Durable[int]:
    """Wait for a number, with a large argument."""
    return len(text) + (yield from answer.wait())


class Lines(logging.Handler):
    """Everything that was logged, by level."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: list[str] = []
        self.met = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        self.levels.append(record.levelname)
        self._loop.call_soon_threadsafe(self.met.set)


def limit_files(size: int) -> None:
    """Limit the size of every file of the process."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))


def wal_size(store: str) -> int:
    """The size of the files beside the database."""
    return os.path.getsize(f"{store}-wal")


async def fill(store: str, patience: float, *, gets_room: bool) -> None:
    """Start workflows until the disk is full; then free it, or keep it full for longer than the patience."""
    lines = Lines()
    logging.getLogger("durable").addHandler(lines)
    started: list[str] = []
    error = ""
    async with WorkflowEngine(store, config=EngineConfig(commit_patience=patience)) as engine:

        async def start_some() -> None:
            for number in range(30):
                await engine.start(wait_for_answer("x" * 100_000), id=f"w{number}")
                started.append(f"w{number}")

        limit_files(wal_size(store) + 1_000_000)
        clients = asyncio.create_task(start_some())
        await lines.met.wait()
        before = len(started)
        if gets_room:
            limit_files(resource.RLIM_INFINITY)
        try:
            await clients
        except StorageUnavailable as problem:
            error = str(problem)
    limit_files(resource.RLIM_INFINITY)
    report = {"before": before, "started": started, "levels": lines.levels, "error": error}
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    name, path = sys.argv[1:]
    if name == "room again":
        asyncio.run(fill(path, 60, gets_room=True))
    else:
        asyncio.run(fill(path, 0.5, gets_room=False))
