"""A run has its own process and its own store, and any failure in it is a line of results."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import attrs
import pytest

from bench import peers
from bench.plan import Planned
from bench.runs import Runner
from tests.bench.jobs import STORE, WORKLOAD

PLANNED = Planned(
    workload=WORKLOAD,
    case=WORKLOAD.cases[0],
    contender="durable",
    entry=WORKLOAD.entry,
    sizes={"count": 3},
    store=None,
    repeat=1,
    repeats=2,
)


def test_run_is_a_fresh_process_in_an_empty_folder(tmp_path: Path) -> None:
    """Each run has a new process and an empty folder, and leaves nothing behind."""
    runner = Runner(tmp_path)
    lines = [runner.run(PLANNED), runner.run(PLANNED)]
    assert len({os.getpid(), *(line.figures["pid"] for line in lines)}) == 3
    assert [line.figures["files"] for line in lines] == [0, 0]
    assert [(line.workload, line.repeat, line.figures["count"], line.settings) for line in lines] == [
        ("T", 1, 3, "none"),
        ("T", 1, 3, "none"),
    ]
    assert not list(tmp_path.iterdir())


def test_run_that_fails_says_why(tmp_path: Path) -> None:
    """The last line of a process that ended with an error is the reason, and no exception is raised."""
    line = Runner(tmp_path).run(attrs.evolve(PLANNED, entry="tests.bench.jobs:fail"))
    assert line.did_not_run == "ended with 1: RuntimeError: no disk today"
    assert not line.figures
    assert not list(tmp_path.iterdir())


def test_run_that_hangs_is_ended(tmp_path: Path) -> None:
    """A process that hangs is ended, and that is the reason."""
    line = Runner(tmp_path, patience=0.1).run(attrs.evolve(PLANNED, entry="tests.bench.jobs:hang"))
    assert line.did_not_run == "no answer after 0.1 s"


def test_store_is_made_once_and_copied_for_each_run(tmp_path: Path) -> None:
    """Runs with the same sizes get copies of one store. Other sizes get another, and the first is deleted."""
    runner = Runner(tmp_path)
    planned = attrs.evolve(PLANNED, entry="tests.bench.jobs:look", store=STORE)
    first, second = runner.run(planned).figures, runner.run(planned).figures
    assert first["which"] == second["which"]
    assert first["pid"] != second["pid"]
    larger = runner.run(attrs.evolve(planned, sizes={"count": 4})).figures
    assert larger["which"] > first["which"]
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1


def test_store_that_cannot_be_created_is_a_reason(tmp_path: Path) -> None:
    """If a store cannot be created, nothing runs on it."""
    broken = attrs.evolve(PLANNED, store=type(STORE)(entry="tests.bench.jobs:fail", sizes=()))
    assert "no disk today" in Runner(tmp_path).run(broken).did_not_run


def test_peer_that_cannot_be_installed_says_why() -> None:
    """The last line of an installer is the reason."""
    with pytest.raises(peers.PeerMissing, match=r"^pip failed: no such package$"):
        peers.call("pip", [sys.executable, "-c", "import sys; sys.exit('warning\\nno such package')"])
