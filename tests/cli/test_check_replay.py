"""`check-replay`: which workflows of a store do not fit the current code."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from durable import Durable, Event, SyncWorkflowEngine, WorkflowStatus, sleep, workflow
from durable.backends.sqlite import schema
from durable.cli import replay as command
from durable.runner.definitions import REGISTRY
from tests.cli.kit import Ran, run

Check = Callable[..., Ran]
ROOT = Path(__file__).parents[2]
paid = Event[int]("paid")
shipped = Event[int]("shipped")

FITS = """
from durable import Durable, Event, sleep, workflow

paid, shipped = Event[int]("paid"), Event[int]("shipped")
print("a module that talks")

@workflow(name="order")
def order() -> Durable[int]:
    cents = yield from paid.wait()
    print("a body that talks")
    return cents + (yield from shipped.wait())

@workflow(name="nap")
def nap() -> Durable[None]:
    yield from sleep(3600)

ALL = [order, nap]
"""
# The same module after a change: the recorded first step now comes second.
DIVERGED = FITS.replace("cents = yield", "yield from shipped.wait()\n    cents = yield")
BROKEN = FITS.replace('print("a body that talks")', "cents.missing")


@workflow(name="order")
def order() -> Durable[int]:
    """Waits for the money, then for the parcel."""
    cents = yield from paid.wait()
    return cents + (yield from shipped.wait())


@workflow(name="nap")
def nap() -> Durable[None]:
    """Sleeps for an hour."""
    yield from sleep(3600)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The store of a running engine: two paid orders, one unpaid, a sleeper and a finished order."""
    path = tmp_path / "orders.db"
    with SyncWorkflowEngine(path, workflows=[order, nap]) as engine:
        for number in range(4):
            engine.start(order(), id=f"order-{number}")
        engine.start(nap(), id="nap")
        for number in range(3):
            engine.send_event(paid, 42, to=f"order-{number}")
        engine.send_event(shipped, 1, to="order-2")
        assert engine.query_status("order-2") is WorkflowStatus.SUCCEEDED
        yield path


@pytest.fixture
def check(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """Run `check-replay` over the store with this code."""
    monkeypatch.setattr(REGISTRY, "_known", {})
    monkeypatch.syspath_prepend(str(tmp_path))
    # The module is rewritten within the same second, and a stale cache must not win.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def run_check(code: str, *options: str, source: Path = store, spec: str = "at_hand") -> Ran:
        (tmp_path / "at_hand.py").write_text(code)
        monkeypatch.delitem(sys.modules, "at_hand", raising=False)
        return run(capsys, "check-replay", source, "--workflows", spec, *options)

    return run_check


def test_code_that_fits(check: Check) -> None:
    """If every workflow fits, the exit code is 0, and prints of modules and bodies stay out of the output."""
    ran = check(FITS)
    assert (ran.code, ran.out) == (0, "4 workflows replayed: 4 fit\n")
    assert "a module that talks" in ran.err
    assert "a body that talks" in ran.err


def test_code_that_diverges(check: Check, tmp_path: Path) -> None:
    """Workflows that would be parked are listed with both sides of the difference and the line. The exit code is 1."""
    ran = check(DIVERGED)
    line = f"{tmp_path / 'at_hand.py'}:9"
    block = "order-{} (order, version 1) would be parked: diverged at position 0, entry 1 of 1\n"
    block += f"  - recorded: event paid\n  + code asks: event shipped  ({line})\n"
    summary = "4 workflows replayed: 2 fit, 2 would be parked\n"
    assert (ran.code, ran.out) == (1, block.format(0) + block.format(1) + summary)


def test_code_that_raises(check: Check) -> None:
    """A waiting workflow whose code now raises would fail, and is listed."""
    ran = check(BROKEN)
    assert ran.code == 1
    assert ran.out.count("would fail\n    AttributeError: 'int' object has no attribute 'missing'") == 2
    assert ran.out.endswith("4 workflows replayed: 2 fit, 2 would fail\n")


def test_json_is_one_document(check: Check) -> None:
    """`--json` lists the same with every field and a summary, even if the list is empty."""
    data = json.loads(check(DIVERGED, "--json").out)
    assert data["summary"] == {"fits": 2, "parked": 2, "fails": 0, "set_aside": 0, "unparked": 0}
    first = data["workflows"][0]
    assert (first["id"], first["fit"], first["status"]) == ("order-0", "parked", "suspended")
    assert (first["reason"], first["entry"]) == ("diverged", 1)
    assert (first["recorded"], first["asked"], first["position"]) == ("event paid", "event shipped", "0")
    assert json.loads(check(FITS, "--json").out)["workflows"] == []


def test_name_and_limit_narrow(check: Check) -> None:
    """`--name` and `--limit` choose what is replayed."""
    assert check(DIVERGED, "--name", "nap").out == "1 workflows replayed: 1 fit\n"
    assert check(FITS, "--limit", "2").out == "2 workflows replayed: 2 fit\n"
    assert check(FITS, "--name", "nobody").out == "0 workflows replayed: none\n"


def test_workflows_may_be_named(check: Check) -> None:
    """With an attribute only its workflows are known; a module brings all that it defines."""
    assert check(FITS, spec="at_hand:ALL").code == 0
    ran = check(FITS, spec="at_hand:nap")
    assert ran.code == 1
    assert ran.out.count("would be parked: unknown code") == 3
    assert "import the module that defines it" in ran.out
    assert check(FITS, "--workflows", "at_hand:order", spec="at_hand:nap").code == 0
    assert check(FITS, "--workflows", "at_hand:order", spec="at_hand").code == 0


def test_nothing_is_written_while_the_engine_runs(check: Check, store: Path) -> None:
    """A check of a store that an engine has open changes none of its files."""

    def contents() -> dict[str, bytes]:
        files = [file for file in store.parent.iterdir() if file.name.startswith(store.name) and file.is_file()]
        return {file.name: b"" if file.name.endswith("-shm") else file.read_bytes() for file in files}

    before = contents()
    assert check(DIVERGED).code == 1
    assert contents() == before


REFUSED = {
    "no module": ("nowhere", [], "nowhere cannot be imported: ModuleNotFoundError"),
    "no attribute": ("at_hand:nothing", [], "there is no attribute 'nothing'"),
    "no workflow": ("at_hand:paid", [], "expected a @workflow function or a list of them"),
    "no workflows": ("at_hand:order.name", [], "expected a @workflow function or a list of them"),
    "no codec": ("at_hand", ["--codec", "at_hand:paid"], "expected a Codec, got Event"),
    "codec of a module": ("at_hand", ["--codec", "at_hand"], "write module:attribute"),
    "limit": ("at_hand", ["--limit", "0"], "0 is not in the range"),
    "twice": ("at_hand", ["--workflows", "second:order"], "is defined by both"),
    "twice, not at import": ("at_hand", ["--workflows", "nested:order"], "is defined by both"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_use_is_refused(check: Check, tmp_path: Path, name: str) -> None:
    """Wrong usage ends with 2 and one sentence, and prints nothing to stdout."""
    (tmp_path / "second.py").write_text(FITS)
    (tmp_path / "nested.py").write_text(
        "from durable import workflow\n\ndef make():\n    async def other(): ...\n"
        "    return workflow(name='order')(other)\n\norder = make()\n"
    )
    spec, options, said = REFUSED[name]
    ran = check(FITS, *options, spec=spec)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_codec_is_the_one_that_is_named(check: Check) -> None:
    """`--codec` gives the replay the engine's own codec."""
    strict = (
        "\nfrom durable import Codec\nfrom durable.model.shapes.converter import make_converter\n"
        "broken = make_converter()\n"
        "broken.register_structure_hook(int, lambda data, _: data['no'])\nCODECS = [Codec(), Codec(broken)]\n"
        "usual, strange = CODECS\n"
    )
    assert check(FITS + strict, "--codec", "at_hand:usual").code == 0
    ran = check(FITS + strict, "--codec", "at_hand:strange")
    assert ran.code == 1
    assert ran.out.count("would be parked: unreadable") == 2


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_closed_pipe_is_not_an_error(store: Path, tmp_path: Path, unbuffered: str) -> None:
    """If the other end of a pipe is closed, the command ends without a traceback or an error."""
    (tmp_path / "at_hand.py").write_text(DIVERGED.replace('print("a module that talks")', ""))
    words = [sys.executable, "-m", "durable", "check-replay", str(store), "-w", "at_hand"]
    # With a buffer, the closed pipe is noticed at the final flush; without one, at the first line.
    path = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}", "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(words, env=path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.close()
        assert running.stderr is not None
        assert running.stderr.read() == b""
    assert running.returncode == 1


def test_module_that_breaks_is_refused(check: Check) -> None:
    """An error while a module is imported is reported as such, not as a missing module."""
    ran = check("import nothing_of_this_name")
    assert ran.code == 2
    assert "at_hand cannot be imported: ModuleNotFoundError: No module named 'nothing_of_this_name'\n" in ran.err


def test_store_that_cannot_be_used_is_refused(check: Check, tmp_path: Path) -> None:
    """A missing file, a file that is not a store, and a store of another version end with 2 and advice."""
    (tmp_path / "text.db").write_text("hello " * 200)
    ran = check(FITS, source=tmp_path / "text.db")
    assert (ran.code, ran.out) == (2, "")
    assert "not a database" in ran.err
    assert "no such file" in check(FITS, source=tmp_path / "none.db").err
    old = tmp_path / "old.db"
    with SyncWorkflowEngine(old, workflows=[]):
        pass
    with closing(sqlite3.connect(old)) as connection:
        connection.execute(f"PRAGMA user_version = {schema.SCHEMA_VERSION - 1}")
    assert "this durable reads" in check(FITS, source=old).err


def test_damaged_rows_are_listed(check: Check, tmp_path: Path, store: Path) -> None:
    """An unreadable row is listed by itself, and the others are replayed."""
    with closing(sqlite3.connect(store)) as source, closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        source.backup(copy)
        copy.execute("UPDATE workflow SET tags = 'none' WHERE id = 'order-0'")
        copy.execute("UPDATE history SET kind = 'dream'")
        copy.execute("UPDATE workflow SET park_reason = 'crashed' WHERE id = 'nap'")
        copy.commit()
    ran = check(FITS, source=tmp_path / "copy.db")
    assert ran.code == 1
    assert "workflow id 'order-0' (?, version 0) would stay parked: unreadable" in ran.out
    assert "order-1 (order, version 1) would be parked: unreadable" in ran.out
    assert ran.out.endswith("1 fit, 2 would be parked, 1 stay parked because they took the process down\n")


def test_parked_workflow_that_fits_again_is_counted(check: Check, tmp_path: Path, store: Path) -> None:
    """A parked workflow that would continue is counted as good news."""
    with closing(sqlite3.connect(store)) as source, closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        source.backup(copy)
        copy.execute("UPDATE workflow SET status = 'parked', park_reason = 'diverged' WHERE id = 'order-0'")
        copy.commit()
    ran = check(FITS, source=tmp_path / "copy.db")
    assert (ran.code, ran.out) == (0, "4 workflows replayed: 4 fit, 1 that are parked now would continue\n")


def test_long_checks_report_their_progress(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every so many workflows, a line on stderr shows the progress."""
    monkeypatch.setattr(command, "_PROGRESS_EVERY", 2)
    ran = check(FITS)
    assert [line for line in ran.err.splitlines() if line.startswith("…")] == [
        "… 2 workflows replayed: 2 fit",
        "… 4 workflows replayed: 4 fit",
    ]


def test_exported_histories_are_checked_without_a_store(
    check: Check, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check-replay` accepts the files of `export-histories` instead of a store, all of them or one."""
    folder = tmp_path / "histories"
    ran = run(capsys, "export-histories", store, folder, "--name", "order", "--limit", "2")
    assert (ran.code, ran.out) == (0, f"2 histories written to {folder}\n")
    assert check(FITS, source=folder).out == "2 workflows replayed: 2 fit\n"
    ran = check(DIVERGED, source=folder)
    assert ran.code == 1
    assert ran.out.count("- recorded: event paid") == 2
    assert check(DIVERGED, source=min(folder.iterdir())).out.endswith("1 workflows replayed: 1 would be parked\n")
    assert check(DIVERGED, "--name", "nap", source=folder).out == "0 workflows replayed: none\n"


def test_files_that_cannot_be_used_are_refused(
    check: Check, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is not a history and a folder that cannot be written end with 2."""
    (tmp_path / "bad.json").write_text("{}")
    assert "bad.json: is not an exported history" in check(FITS, source=tmp_path / "bad.json").err
    ran = run(capsys, "export-histories", store, tmp_path / "bad.json" / "folder")
    assert ran.code == 2
    assert "Not a directory" in ran.err
    assert run(capsys, "export-histories", tmp_path / "none.db", tmp_path / "x").code == 2


def test_command_in_a_process_of_its_own(store: Path, tmp_path: Path) -> None:
    """`python -m durable check-replay` finds modules in its working directory while another process runs the engine."""
    (tmp_path / "at_hand.py").write_text(DIVERGED)
    words = [sys.executable, "-m", "durable", "check-replay", "orders.db", "-w", "at_hand"]
    path = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=tmp_path, env=path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stdout.endswith("4 workflows replayed: 2 fit, 2 would be parked\n")
