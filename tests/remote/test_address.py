"""Where the socket is: private, short, found by its store's lock file, and never that of somebody else."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
import pytest

from durable.backends.sqlite import SqliteBackend
from durable.backends.sqlite.owner import control_path
from durable.engine.operations import FindWorkflow
from durable.engine.remote import sockets
from durable.engine.remote.address import PATH_MAX, Place, listen, places
from durable.engine.remote.connection import Connection
from durable.errors import ConnectionLost
from tests.remote.kit import connected, door, is_socket_alive, served

NOBODY = 65_534
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


def mode(path: str | Path) -> int:
    """The permissions of a file."""
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.fixture
def backend(tmp_path: Path) -> Any:
    """An open store."""
    opened = SqliteBackend(tmp_path / "store.db")
    opened.open("a")
    yield opened
    opened.close()


def test_socket_is_private(tmp_path: Path) -> None:
    """Only the user of the engine can enter the directory or connect, and closing removes the file."""
    listener = door(tmp_path)
    assert mode(os.path.dirname(listener.path)) == 0o700
    assert mode(listener.path) == 0o600
    listener.close()
    assert not os.path.lexists(listener.path)


def test_forked_child_does_not_remove_the_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a forked child closes is its copy: the file belongs to the process that made it."""
    listener = door(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        listener.close()
    assert os.path.lexists(listener.path)


def test_deep_store_has_its_socket_elsewhere(tmp_path: Path) -> None:
    """A path that is too long for a socket is replaced by a short one in a private directory, one per store."""
    deep = tmp_path / ("d" * 100)
    listeners = [listen(places(str(deep / name)), "a") for name in ("a.db", "b.db")]
    for listener in listeners:
        assert listener.path.startswith(tempfile.gettempdir())
        assert len(listener.path) <= PATH_MAX
        assert mode(os.path.dirname(listener.path)) == 0o700
        assert is_socket_alive(listener.path)
        listener.close()


def test_sockets_of_dead_engines_are_removed(tmp_path: Path) -> None:
    """A new owner removes the sockets of earlier owners; an earlier one that ends late does not remove the new one."""
    dead, new = door(tmp_path, "dead"), door(tmp_path, "new")
    kept = Path(new.path).with_name("note")
    kept.write_text("not a socket")
    assert not os.path.lexists(dead.path)
    dead.close()
    assert is_socket_alive(new.path)
    again = door(tmp_path, "new")
    assert is_socket_alive(again.path)
    assert kept.exists()
    again.close()
    new.close()


@pytest.mark.parametrize("spoil", ["open", "file", "link"])
def test_directory_that_is_not_private_is_refused(tmp_path: Path, spoil: str) -> None:
    """A directory that others can enter, or something else in its place, is refused with the reason."""
    directory = tmp_path / "store.db-control"
    if spoil == "open":
        directory.mkdir(mode=0o755)
    elif spoil == "file":
        directory.write_text("")
    else:
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        directory.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="only this user can enter"):
        listen([Place(str(directory), "")], "a")


@is_root
def test_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    """A directory that another user made first is not used."""
    directory = tmp_path / "store.db-control"
    directory.mkdir(mode=0o700)
    os.chown(directory, NOBODY, NOBODY)
    with pytest.raises(OSError, match="only this user can enter"):
        listen([Place(str(directory), "")], "a")


def test_announced_socket_is_found(tmp_path: Path, backend: SqliteBackend) -> None:
    """This process and others find the announced socket by any path of the store, until the next owner takes it."""
    store = tmp_path / "store.db"
    link = tmp_path / "link.db"
    link.symlink_to(store)
    assert control_path(store) is None
    listener = door(tmp_path)
    held = backend.held
    assert held is not None
    held.announce(listener.path)
    command = "import sys; from durable.backends.sqlite.owner import control_path; print(control_path(sys.argv[1]))"
    for name in (store, link):
        assert control_path(name) == listener.path
        elsewhere = subprocess.run([sys.executable, "-c", command, name], capture_output=True, text=True, check=True)
        assert elsewhere.stdout.strip() == listener.path
    assert '"StoreInUse"' not in (tmp_path / "store.db-owner").read_text()
    backend.close()
    assert control_path(store) == listener.path
    backend.open("b")
    assert control_path(store) is None
    listener.close()


def test_looking_for_a_socket_does_not_drop_the_lock(tmp_path: Path, backend: SqliteBackend) -> None:
    """The process that owns a store may look for its socket: another process still cannot open the store."""
    assert control_path(tmp_path / "store.db") is None
    command = "import sys; from durable.backends.sqlite import SqliteBackend; SqliteBackend(sys.argv[1]).open('b')"
    store = str(tmp_path / "store.db")
    refused = subprocess.run([sys.executable, "-c", command, store], capture_output=True, text=True, check=False)
    assert "StoreInUse" in refused.stderr


def test_announcing_keeps_the_other_notes(tmp_path: Path, backend: SqliteBackend) -> None:
    """What the lock file says about the store stays when a socket is announced, and the socket when that changes."""
    sidecar = tmp_path / "store.db-owner"
    before = json.loads(sidecar.read_text())
    held = backend.held
    assert held is not None
    held.announce("/tmp/socket")
    assert json.loads(sidecar.read_text()) == before | {"control": "/tmp/socket"}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"control": 5}', '{"control": "/"}', '{"control": "a\\u0000b"}'])
def test_damaged_lock_file_names_no_socket(tmp_path: Path, text: str) -> None:
    """A lock file that says something else, or names what is not a socket, means that no engine is known."""
    (tmp_path / "store.db").write_text("")
    (tmp_path / "store.db-owner").write_text(text)
    assert control_path(tmp_path / "store.db") is None


def test_lock_file_that_others_may_write_is_not_believed(tmp_path: Path) -> None:
    """A lock file that somebody else may have written, or that is a link, names no socket."""
    listener = door(tmp_path)
    (tmp_path / "store.db").write_text("")
    sidecar = tmp_path / "store.db-owner"
    sidecar.write_text(json.dumps({"control": listener.path}))
    assert control_path(tmp_path / "store.db") == listener.path
    sidecar.chmod(0o666)
    assert control_path(tmp_path / "store.db") is None
    sidecar.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(sidecar, NOBODY, NOBODY)
        assert control_path(tmp_path / "store.db") is None
        os.chown(sidecar, 0, 0)
    sidecar.rename(tmp_path / "moved")
    sidecar.symlink_to(tmp_path / "moved")
    assert control_path(tmp_path / "store.db") is None
    listener.close()


def test_only_the_same_user_is_trusted() -> None:
    """The user of this process is trusted; no other user is, and neither is one that the system does not name."""
    assert sockets.is_trusted(os.geteuid())
    assert not sockets.is_trusted(os.geteuid() + 1)
    assert not sockets.is_trusted(None)


_ASK = (
    "import os, socket, sys; os.setgid(65534); os.setuid(65534); s = socket.socket(socket.AF_UNIX); "
    "s.connect(sys.argv[1]); print(s.recv(100))"
)


@is_root
@pytest.mark.anyio
async def test_process_of_another_user_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A process of another user is refused by the kernel, and by the engine if somebody opened all permissions."""
    with tempfile.TemporaryDirectory(prefix="d") as folder:
        async with served(Path(folder)) as server, connected(server.path) as friend:
            command = [sys.executable, "-c", _ASK, server.path]
            closed = await anyio.run_process(command, check=False)
            assert b"PermissionError" in closed.stderr
            for path in (folder, os.path.dirname(server.path)):
                os.chmod(path, 0o755)
            os.chmod(server.path, 0o666)
            opened = await anyio.run_process(command, check=False)
            assert opened.stdout.strip() == b"b''"
            assert await friend.ask(FindWorkflow("w")) is None
    assert f"user {NOBODY} was refused" in caplog.text


_LISTEN = (
    "import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o666); "
    "os.setgid(65534); os.setuid(65534); s.listen(); print('ready', flush=True); s.accept(); s.accept()"
)


@is_root
@pytest.mark.anyio
async def test_engine_of_another_user_is_not_asked(tmp_path: Path) -> None:
    """A client says nothing to a process of another user that listens where an engine should."""
    path = str(tmp_path / "s")
    async with await anyio.open_process([sys.executable, "-c", _LISTEN, path], stderr=None) as impostor:
        assert impostor.stdout is not None
        assert (await impostor.stdout.receive()).startswith(b"ready")
        with pytest.raises(ConnectionLost, match=f"belongs to user {NOBODY}"):
            await Connection.open(path, 10)
        impostor.kill()
