"""`engine.backup`: a whole store in a new file, made beside a running engine; and what a restored store knows."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from pathlib import Path

import anyio
import pytest

from durable import (
    Delivered,
    Durable,
    EngineClosed,
    Event,
    OperationMisused,
    StoreUnusable,
    SyncWorkflowEngine,
    WorkflowEngine,
    WorkflowNotFound,
    WrongType,
    activity,
    workflow,
)
from durable.backends.sqlite.copying import Copies
from tests.scenarios.kit import SOON, query, waiting

pytestmark = pytest.mark.anyio
answer = Event[int]("backup.answer")
ran: list[tuple[str, int]] = []


@activity(name="backup.add")
async def add_one(number: int) -> int:
    """An activity that would be seen if it ran twice."""
    ran.append(("add", number))
    return number + 1


@workflow(name="backup.wait")
def wait_for_answer() -> Durable[int]:
    """Wait for a number, and work on it."""
    return (yield from add_one((yield from answer.wait())))


def names(folder: Path) -> list[str]:
    """The files in a folder."""
    return sorted(path.name for path in folder.iterdir())


class Held:
    """A backup that pauses in the middle until the test releases it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self._go = threading.Event(), threading.Event()
        copy = Copies._copy

        def held(copies: Copies, partial: str, check: object) -> None:
            def wait(*_: int) -> None:
                self.reached.set()
                while not self._go.wait(0.01):
                    assert callable(check)
                    check()

            copy(copies, partial, wait)

        monkeypatch.setattr(Copies, "_copy", held)

    async def wait(self) -> None:
        """The copy has begun."""
        with anyio.fail_after(SOON):
            while not self.reached.is_set():
                await anyio.lowlevel.checkpoint()

    def let_go(self) -> None:
        """Let the copy finish."""
        self._go.set()


async def test_backup_opens_as_a_store(file: Path) -> None:
    """The copy holds everything that was acknowledged before the call; it is sound and needs no other file."""
    target = file.with_name("backup.db")
    async with WorkflowEngine(file) as engine:
        for number in range(20):
            await engine.start(wait_for_answer(), id=str(number))
        await engine.backup(target)
        await engine.start(wait_for_answer(), id="later")
        assert [name for name in names(file.parent) if name.startswith("backup")] == ["backup.db"]
        assert query(target, "PRAGMA integrity_check") == [("ok",)]
        async with WorkflowEngine(target) as copy:
            assert await copy.runs.count() == 20
            await copy.send_event(answer, 1, to="7")
            assert await copy.handle("7").result(timeout=SOON) == 2
        assert await engine.runs.count() == 21


async def test_backup_is_not_a_crash(file: Path) -> None:
    """Work that was running when the copy was made is not blamed for a crash when the copy is opened."""
    target = file.with_name("backup.db")
    async with WorkflowEngine(file) as engine:
        await engine.start(wait_for_answer(), id="w")
        await engine.backup(target)
    assert query(target, "SELECT clean, incarnation, batch FROM meta") == [(1, "", 0)]


async def test_backup_blocks_no_calls(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a copy is being made, starts are acknowledged; the copy shows the moment at which it began."""
    held = Held(monkeypatch)
    target = file.with_name("backup.db")
    async with WorkflowEngine(file) as engine:
        await engine.start(wait_for_answer(), id="before")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.backup, target)
            await held.wait()
            for number in range(50):
                await engine.start(wait_for_answer(), id=str(number))
            assert not names(file.parent).count("backup.db")
            held.let_go()
        assert await engine.runs.count() == 51
    assert query(target, "SELECT id FROM workflow") == [("before",)]


async def test_backup_ends_with_the_engine(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shutdown does not wait for a copy: the copy is removed and its caller gets an error."""
    held = Held(monkeypatch)
    errors: list[Exception] = []

    async def back_up() -> None:
        try:
            await engine.backup(file.with_name("backup.db"))
        except EngineClosed as error:
            errors.append(error)

    async with anyio.create_task_group() as tasks, WorkflowEngine(file) as engine:
        tasks.start_soon(back_up)
        await held.wait()
    assert len(errors) == 1
    assert names(file.parent) == ["store.db", "store.db-control", "store.db-owner", "store.db-step"]


async def test_cancelled_backup_leaves_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the caller stops waiting, the copy ends and leaves no file."""
    held = Held(monkeypatch)
    async with WorkflowEngine(file) as engine:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.backup, file.with_name("backup.db"))
            await held.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(SOON):
            while any("backup" in name for name in names(file.parent)):
                await anyio.lowlevel.checkpoint()
        await engine.start(wait_for_answer(), id="w")


async def test_backup_does_not_overwrite(file: Path) -> None:
    """A file that exists is kept, unless the caller asks to replace it."""
    target = file.with_name("backup.db")
    target.write_text("precious")
    async with WorkflowEngine(file) as engine:
        with pytest.raises(StoreUnusable, match="overwrite=True"):
            await engine.backup(target)
        assert target.read_text() == "precious"
        await engine.backup(target, overwrite=True)
    assert query(target, "SELECT count(*) FROM workflow") == [(0,)]


async def test_backup_refuses_what_it_would_harm(file: Path) -> None:
    """The store itself, a store in use, a directory and a missing directory are refused with a clear message."""
    folder = file.parent
    (folder / "folder").mkdir()
    (folder / "link.db").symlink_to(file)
    async with WorkflowEngine(file) as engine, WorkflowEngine(folder / "other.db"):
        before = names(folder)
        for name, hint in {
            "store.db": "the store itself", "link.db": "the store itself", "folder": "is a directory",
            "missing/b.db": "create it first", "other.db": "there is a log beside it", "\0": "not the",
            "store.db-wal": "uses that file", "store.db-owner": "uses that file",
        }.items():  # fmt: skip
            with pytest.raises(StoreUnusable, match=hint):
                await engine.backup(folder / name, overwrite=True)
        with pytest.raises(WrongType, match="must be a path"):
            await engine.backup(7)  # type: ignore[arg-type]
        assert names(folder) == before


async def test_backup_needs_a_file() -> None:
    """A store in memory has nothing to copy, and says so."""
    async with WorkflowEngine("memory://") as engine:
        with pytest.raises(OperationMisused, match="store in a file"):
            await engine.backup("backup.db")


async def test_backup_is_as_private_as_its_store(file: Path) -> None:
    """The copy has the mode of the store, whatever the umask."""
    async with WorkflowEngine(file) as engine:
        for mode in (0o600, 0o640):
            os.chmod(file, mode)
            await engine.backup(file.with_name(f"{mode}.db"))
            assert stat.S_IMODE(os.stat(file.with_name(f"{mode}.db")).st_mode) == mode


def restore(backup: Path, file: Path) -> None:
    """The documented way to restore: stop the engine, remove the old log, put the copy in place of the file."""
    for suffix in ("-wal", "-shm"):
        Path(f"{file}{suffix}").unlink(missing_ok=True)
    shutil.copy(backup, file)


async def test_restored_store_continues_from_the_backup(file: Path) -> None:
    """Everything after the backup is lost: activities run again, workflow ids are free, event ids are new."""
    ran.clear()
    backup = file.with_name("backup.db")
    async with WorkflowEngine(file) as engine:
        await engine.start(wait_for_answer(), id="a")
        await engine.backup(backup)
        await engine.send_event(answer, 5, to="a", event_id="e1")
        assert await engine.handle("a").result(timeout=SOON) == 6
        await engine.start(wait_for_answer(), id="b")
    restore(backup, file)
    async with WorkflowEngine(file) as engine:
        await waiting(engine, "a", "event")
        with pytest.raises(WorkflowNotFound):
            await engine.handle("b").result(timeout=SOON)
        assert await (await engine.start(wait_for_answer(), id="b")).status() is not None
        assert await engine.send_event(answer, 5, to="a", event_id="e1") == Delivered(("a",))
        assert await engine.handle("a").result(timeout=SOON) == 6
    assert ran == [("add", 5), ("add", 5)]


def test_sync_engine_makes_backups(file: Path) -> None:
    """The engine for services without a loop has the same call."""
    target = file.with_name("backup.db")
    with SyncWorkflowEngine(file) as engine:
        engine.start(wait_for_answer(), id="w")
        engine.backup(target)
        engine.backup(target, overwrite=True)
    assert query(target, "SELECT id FROM workflow") == [("w",)]
