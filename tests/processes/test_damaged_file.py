"""A store whose file was damaged: a page overwritten, the end cut off, the WAL cut off or gone.

SQLite keeps no checksums of its pages. If it reports a page that it cannot read, the engine stops and names the file.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from durable import Durable, Event, StoreUnusable, WorkflowEngine, workflow
from tests.scenarios.kit import SOON, query

pytestmark = pytest.mark.anyio
PAGE = 4096
COUNT = 200
answer = Event[int]("file.answer")


@workflow(name="file.wait")
def wait_for_answer(text: str) -> Durable[int]:
    """Wait for a number."""
    return len(text) + (yield from answer.wait())


async def build(file: Path, image: Path | None = None) -> None:
    """Some hundred workflows; on request a copy of the files while the engine has them open, as a crash leaves them."""
    async with WorkflowEngine(file) as engine:
        for number in range(COUNT):
            await engine.start(wait_for_answer("x" * 1000), id=f"w{number}")
        if image is not None:
            for end in ("", "-wal"):
                shutil.copyfile(f"{file}{end}", f"{image}{end}")


async def send_to_all(file: Path) -> None:
    """Work that reads every row."""
    async with WorkflowEngine(file) as engine:
        for number in range(COUNT):
            await engine.send_event(answer, 1, to=f"w{number}")


def pages_of(file: Path, table: str) -> list[int]:
    """The numbers of the pages that hold a table's rows, the root first."""
    (root,) = query(file, "SELECT rootpage FROM sqlite_master WHERE name = ?", [table])[0]
    data = file.read_bytes()
    # A page of a table's tree begins with 5 if it leads to others and 13 if it holds rows.
    leaves = [
        n for n in range(1, len(data) // PAGE + 1) if data[(n - 1) * PAGE] == 13 and b"file.wait" in page(data, n)
    ]
    return [root, *leaves]


def page(data: bytes, number: int) -> bytes:
    """One page of a file."""
    return data[(number - 1) * PAGE : number * PAGE]


def overwrite(file: Path, number: int) -> None:
    """A page of noise."""
    data = bytearray(file.read_bytes())
    data[(number - 1) * PAGE : number * PAGE] = b"\xa5" * PAGE
    file.write_bytes(data)


@pytest.mark.parametrize("which", [0, 1], ids=["root", "leaf"])
async def test_damaged_page_stops_the_engine(tmp_path: Path, caplog: pytest.LogCaptureFixture, which: int) -> None:
    """The first read of a damaged page stops the engine with the file's name and the cure; it is not repeated."""
    file = tmp_path / "store.db"
    await build(file)
    overwrite(file, pages_of(file, "workflow")[which])
    with pytest.raises(StoreUnusable, match=r"store\.db.*damaged"):
        await send_to_all(file)
    # On a busy machine the watchdog may also log a slow body.
    levels = [
        record.levelno for record in caplog.records if record.name == "durable" and record.levelno >= logging.ERROR
    ]
    assert levels == [logging.CRITICAL]
    damaged = file.read_bytes()
    with pytest.raises(StoreUnusable):
        async with WorkflowEngine(file) as engine:
            await engine.runs.list(limit=1000)
    # Only the book-keeping of the start has changed: no repair was attempted.
    changed = [n for n in range(1, len(damaged) // PAGE + 1) if page(file.read_bytes(), n) != page(damaged, n)]
    assert len(changed) <= 2


async def test_file_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    """A file that is shorter than its header says is refused when it is opened, and is not changed."""
    file = tmp_path / "store.db"
    await build(file)
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // PAGE // 2 * PAGE])
    before = file.read_bytes()
    for _ in range(2):
        with pytest.raises(StoreUnusable, match=r"store\.db.*damaged"):
            async with WorkflowEngine(file):
                pass
    assert file.read_bytes() == before


CUTS: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda wal: wal[: len(wal) * 2 // 3 + 7],
    "overwritten": lambda wal: wal[: len(wal) // 2] + b"\xa5" * PAGE + wal[len(wal) // 2 + PAGE :],
    "empty": lambda wal: b"",
}


def damage_wal(file: Path, cut: Callable[[bytes], bytes]) -> None:
    """What is left of the WAL. It ends in zeros, which were never written to."""
    wal = Path(f"{file}-wal")
    wal.write_bytes(cut(wal.read_bytes().rstrip(b"\0")))


@pytest.mark.parametrize("cut", CUTS)
async def test_wal_that_was_cut_off_is_a_shorter_past(tmp_path: Path, cut: str) -> None:
    """The readable part of a damaged WAL is a whole number of commits: a sound store whose work continues."""
    file = tmp_path / "image.db"
    await build(tmp_path / "store.db", file)
    damage_wal(file, CUTS[cut])
    async with WorkflowEngine(file) as engine:
        left = await engine.runs.count()
        assert left < COUNT
        assert sorted(run.id for run in await engine.runs.list(limit=1000)) == sorted(f"w{n}" for n in range(left))
        for number in range(left):
            await engine.send_event(answer, 1, to=f"w{number}")
            assert await engine.handle(f"w{number}").result(timeout=SOON) == 1001
        await engine.start(wait_for_answer("again"), id=f"w{left}")
    assert query(file, "PRAGMA integrity_check") == [("ok",)]
