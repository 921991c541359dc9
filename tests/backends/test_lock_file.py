"""The lock of a store belongs to the file and not to one of its names, and nothing else can take or misuse it."""

from __future__ import annotations

import json
import os
import pathlib
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from durable.backends.base import Batch
from durable.backends.sqlite import SqliteBackend, owner, schema
from durable.errors import StorageError, StoreInUse, StoreUnusable

ROOT = pathlib.Path(schema.__file__).parents[2]
_HOLD = (
    "import sys; from durable.backends.sqlite import SqliteBackend; b = SqliteBackend(sys.argv[1]); b.open('child'); "
    "print('open', flush=True); sys.stdin.read()"
)


@contextmanager
def held_elsewhere(path: pathlib.Path) -> Iterator[int]:
    """Another process has the store open; its process id."""
    command = [sys.executable, "-c", _HOLD, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        try:
            yield child.pid
        finally:
            child.kill()


def refused_elsewhere(path: pathlib.Path) -> str:
    """The error of another process that tries to open the store."""
    command = [sys.executable, "-c", _HOLD, str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, input="").stderr


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    """A store that was closed cleanly."""
    backend = SqliteBackend(tmp_path / "store.db")
    backend.open("maker")
    backend.commit(Batch(number=1))
    backend.close()
    return tmp_path / "store.db"


def gone_process() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass
    return child.pid


def test_file_with_hard_links_is_refused(path: pathlib.Path) -> None:
    """A file with a second name is refused: the log would belong to one name only. Without that name it opens."""
    link = path.with_name("link.db")
    os.link(path, link)
    for name in (path, link):
        with pytest.raises(StoreUnusable, match=r"2 hard links.*-samefile"):
            SqliteBackend(name).open("a")
    link.unlink()
    backend = SqliteBackend(path)
    backend.open("a")
    backend.close()


def test_hard_link_made_later_is_refused(path: pathlib.Path) -> None:
    """While an engine works on a file, neither this process nor another opens it by a second name."""
    first = SqliteBackend(path)
    first.open("a")
    link = path.with_name("link.db")
    os.link(path, link)
    with pytest.raises(StoreInUse, match="another engine in this process"):
        SqliteBackend(link).open("b")
    assert "hard links" in refused_elsewhere(link)
    first.commit(Batch(number=1))
    first.close()


def test_lock_is_on_the_file_itself(path: pathlib.Path) -> None:
    """A process that reaches the file by another path, with another lock file beside it, is refused by its lock."""
    with held_elsewhere(path):
        mount = path.parent / "mounted"
        mount.mkdir()
        os.link(path, mount / "store.db")
        with pytest.raises(StoreInUse, match="another path"):
            owner.take(str(mount / "store.db"))
    owner.take(str(mount / "store.db")).release()


def test_symbolic_links_share_the_lock(path: pathlib.Path) -> None:
    """Two symbolic links to one file mean one lock, also between processes."""
    names = [path.with_name(name) for name in ("one.db", "two.db")]
    for name in names:
        name.symlink_to(path)
    with held_elsewhere(names[0]) as pid, pytest.raises(StoreInUse, match=f"process {pid} on host"):
        SqliteBackend(names[1]).open("a")


@pytest.mark.parametrize(("link", "hint"), [(os.symlink, "symbolic link"), (os.link, "hard links")])
def test_lock_file_that_is_a_link_is_refused(path: pathlib.Path, link: object, hint: str) -> None:
    """A lock file that leads to another file is refused, and that file is left alone."""
    victim = path.with_name("victim")
    victim.write_text("precious")
    sidecar = pathlib.Path(f"{path}-owner")
    sidecar.unlink()
    assert callable(link)
    link(victim, sidecar)
    with pytest.raises(StoreUnusable, match=f"lock file.*{hint}"):
        SqliteBackend(path).open("a")
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("suffix", ["-owner", "-wal", "-shm", "-journal"])
def test_pipe_beside_a_store_is_refused(path: pathlib.Path, suffix: str) -> None:
    """A pipe in place of a side file, which would block its reader, is refused and named."""
    sidecar = pathlib.Path(f"{path}{suffix}")
    sidecar.unlink(missing_ok=True)
    os.mkfifo(sidecar)
    with pytest.raises(StoreUnusable, match=f"store.db{suffix}' .*is not a plain file.*remove it"):
        SqliteBackend(path).open("a")


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_log_that_is_a_link_is_refused(path: pathlib.Path, suffix: str) -> None:
    """A link in place of a log is refused: SQLite would not open it, and would not say why."""
    victim = path.with_name("victim")
    victim.write_text("precious")
    pathlib.Path(f"{path}{suffix}").symlink_to(victim)
    with pytest.raises(StoreUnusable, match=f"store.db{suffix}' .*is not a plain file.*remove it"):
        SqliteBackend(path).open("a")
    assert victim.read_text() == "precious"


def test_lock_file_is_private(path: pathlib.Path) -> None:
    """Only its owner may open the lock file: opening it is enough to hold the lock. An older one is tightened."""
    sidecar = pathlib.Path(f"{path}-owner")
    assert stat.S_IMODE(sidecar.stat().st_mode) == 0o600
    sidecar.chmod(0o644)
    backend = SqliteBackend(path)
    backend.open("a")
    assert stat.S_IMODE(sidecar.stat().st_mode) == 0o600
    backend.close()


def test_holder_that_is_gone_is_told_apart(path: pathlib.Path) -> None:
    """If the lock's file names a dead process, another process holds the lock, and the refusal says so."""
    gone = gone_process()
    with held_elsewhere(path):
        note = json.loads(pathlib.Path(f"{path}-owner").read_text())
        pathlib.Path(f"{path}-owner").write_text(json.dumps({**note, "pid": gone}))
        with pytest.raises(StoreInUse, match=rf"another process .*names process {gone}.* gone"):
            SqliteBackend(path).open("a")


def test_dead_holder_does_not_block(path: pathlib.Path) -> None:
    """The name of a dead process in the lock file is only a name: the store opens."""
    pathlib.Path(f"{path}-owner").write_text(json.dumps({"pid": gone_process(), "host": "here"}))
    backend = SqliteBackend(path)
    backend.open("a")
    backend.close()


def test_removed_lock_file_does_not_unlock(path: pathlib.Path) -> None:
    """If the lock file of a running engine is removed, a second engine is still refused."""
    first = SqliteBackend(path)
    first.open("a")
    pathlib.Path(f"{path}-owner").unlink()
    assert "StoreInUse" in refused_elsewhere(path)
    first.commit(Batch(number=1))
    first.close()


def test_refused_open_leaves_nothing_behind(path: pathlib.Path) -> None:
    """An engine that was refused can be opened once the reason is gone: it holds no lock and no descriptor."""
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with held_elsewhere(path), pytest.raises(StorageError):
        SqliteBackend(path).open("a")
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after == before
