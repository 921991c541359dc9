"""`worker`: an engine as a process, with its supervisor on the other end of a socket."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest

from durable import Durable, SyncWorkflowEngine, WorkflowEngine, activity, sleep, workflow
from durable.cli import worker as command
from durable.cli.exits import DO_NOT_RESTART, RESTART
from durable.errors import CodecError, StorageUnavailable, StoreInUse, StoreUnusable
from tests.cli import flows
from tests.cli.flows import STORE
from tests.cli.kit import run
from tests.cli.service import FLOWS, service, worker


@pytest.mark.parametrize(("loop", "number"), [("asyncio", signal.SIGTERM), ("trio", signal.SIGINT)])
def test_worker_is_ready_alive_and_drains(tmp_path: Path, loop: str, number: signal.Signals) -> None:
    """It is ready once it has recovered, says what it does, feeds its watchdog, and ends with 0 on a signal."""
    with SyncWorkflowEngine(tmp_path / "flows.db", workflows=flows.ALL) as engine:
        engine.start(flows.nap(), id="nap")
    with worker(tmp_path / "flows.db", FLOWS, "--loop", loop) as running:
        running.hears("READY=1")
        assert running.hears("STATUS=") == "STATUS=0 running, 1 suspended, 0 parked"
        for _ in range(3):
            running.hears("WATCHDOG=1")
        assert running.end(number) == 0
        running.hears("STOPPING=1")
        assert "letting activities finish" in running.said()


def test_second_worker_should_be_started_again(tmp_path: Path) -> None:
    """A store that another engine owns is refused with the code that says: start it again."""
    with service(tmp_path / "flows.db"), worker(tmp_path / "flows.db", FLOWS, "--quiet") as second:
        assert second.process.wait(20) == RESTART
        said = second.said()
    assert said.startswith("Error: StoreInUse: ")
    assert "Traceback" not in said


def test_store_that_cannot_be_used_is_not_tried_again(tmp_path: Path) -> None:
    """A file that is not a store needs a person, and the code says so."""
    (tmp_path / "flows.db").write_text("no store " * 1000)
    with worker(tmp_path / "flows.db") as running:
        assert running.process.wait(20) == DO_NOT_RESTART


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("tests.cli.flows", "write module:attribute"),
        ("tests.cli.nowhere:engine", "cannot be imported"),
        ("tests.cli.flows:missing", "there is no attribute 'missing'"),
        ("tests.cli.flows:STORE", "expected a WorkflowEngine or a function that makes one, got 'DURABLE_TEST"),
        ("tests.cli.test_worker:broken", "raised RuntimeError: no postgresql://ann:***@db"),
    ],
)
def test_wrong_engine_is_one_sentence(capsys: pytest.CaptureFixture[str], spec: str, said: str) -> None:
    """Whatever is not an engine is refused with 2: a restart cannot help."""
    ran = run(capsys, "worker", spec)
    assert (ran.code, said in ran.err) == (DO_NOT_RESTART, True)


def broken() -> WorkflowEngine:
    """Makes no engine."""
    raise RuntimeError("no postgresql://ann:secret@db")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StoreInUse("a.db", "process 7"), RESTART),
        (StorageUnavailable("disk full"), RESTART),
        (OSError("gone"), RESTART),
        (RuntimeError("bug"), RESTART),
        (StoreUnusable("a.db", "damaged"), DO_NOT_RESTART),
        (CodecError("a", "b"), DO_NOT_RESTART),
    ],
)
def test_supervisor_learns_whether_to_restart(error: Exception, code: int) -> None:
    """What may pass is tried again, and what needs a person is not."""
    assert command.code_after(error) == code
    assert command.code_after(BaseExceptionGroup("tasks", [ExceptionGroup("inner", [error])])) == code


@activity
async def forever() -> None:
    """Does not end before it is cancelled."""
    await anyio.sleep(3600)


@workflow(name="cli-forever")
def stubborn() -> Durable[None]:
    """Runs an activity that does not end."""
    yield from sleep(0)
    yield from forever()


def make_stubborn() -> WorkflowEngine:
    """An engine whose activity keeps it from draining."""
    return WorkflowEngine(os.environ[STORE], workflows=[stubborn])


def test_second_signal_does_not_wait(tmp_path: Path) -> None:
    """While activities are given time to finish, another signal ends the wait; the watchdog is fed meanwhile."""
    with SyncWorkflowEngine(tmp_path / "flows.db", workflows=[stubborn]) as engine:
        engine.start(stubborn(), id="one", delay=0.01)
    with worker(tmp_path / "flows.db", "tests.cli.test_worker:make_stubborn") as running:
        running.hears("STATUS=1 running")
        running.process.send_signal(signal.SIGTERM)
        running.hears("STOPPING=1")
        running.hears("WATCHDOG=1")
        running.hears("WATCHDOG=1")
        assert running.process.poll() is None
        assert running.end() == 0
