"""The command line: what it accepts, what it refuses, and which runs follow from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.machine import file_system, is_in_memory
from bench.options import parse
from bench.plan import PEERS, WORKLOADS, Choice, plan


def test_default_options_measure_everything() -> None:
    """Without arguments, all workloads and all peers are measured several times, and no page is written."""
    options = parse([])
    assert options.choice == Choice(
        only=tuple(workload.name for workload in WORKLOADS), peers=PEERS, repeat=5, peer_repeat=2
    )
    assert (options.out, options.render, options.docs) == (None, None, False)
    assert options.command == "python -m bench"


def test_options_are_parsed() -> None:
    """Names are accepted in any case, and ordered as they are measured."""
    options = parse("--only w2,W1 --peers none --repeat 3 --quick --out a.jsonl --docs".split())
    assert options.choice == Choice(only=("W1", "W2"), peers=(), repeat=3, quick=True, peer_repeat=2)
    assert options.out == Path("a.jsonl")
    assert options.docs
    assert options.command == "python -m bench --only W1,W2 --peers none --repeat 3 --quick --docs"
    assert parse(options.command.split()[3:]).choice == options.choice
    assert parse(["--peers", "restate,dbos"]).choice.peers == ("dbos", "restate")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "W1,W99"], "there is no workload 'w99'; choose from L1, "),
        (["--peers", "temporal"], "there is no peer 'temporal'; choose from dbos, edda, restate"),
        (["--repeat", "0"], "must be a whole number of at least 1, not '0'"),
        (["--repeat", "two"], "must be a whole number of at least 1, not 'two'"),
    ],
)
def test_invalid_options_are_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The refusal of an unknown name lists the known ones."""
    with pytest.raises(SystemExit):
        parse(arguments)
    assert message in capsys.readouterr().err


def test_plan_takes_turns() -> None:
    """Contenders of a case alternate repeat by repeat, and peers have fewer repeats."""
    runs = plan(Choice(only=["W1"], peers=["dbos"], repeat=3, peer_repeat=1))
    case = [(run.contender, run.repeat) for run in runs if run.case.name == "100 at once"]
    assert case == [
        ("bare loop", 0),
        ("durable", 0),
        ("dbos", 0),
        ("bare loop", 1),
        ("durable", 1),
        ("bare loop", 2),
        ("durable", 2),
    ]


def test_plan_takes_the_smaller_count() -> None:
    """`--quick` never makes a count larger than what a slow contender has anyway."""
    usual, quick = (plan(Choice(only=["W1"], peers=PEERS, repeat=1, quick=quick)) for quick in (False, True))
    for usual_run, quick_run in zip(usual, quick, strict=True):
        assert quick_run.sizes["count"] <= usual_run.sizes["count"]
    assert {run.contender: run.sizes["count"] for run in quick if run.case.name == "100 at once"} == {
        "bare loop": 300, "durable": 300, "dbos": 100, "edda": 100, "restate": 300,
    }  # fmt: skip


def test_folder_in_memory_is_known() -> None:
    """A folder whose files never reach a disk is recognised."""
    if not (Path("/dev/shm").is_dir() and file_system(Path("/dev/shm"))):
        pytest.skip("this machine has no such folder")
    assert is_in_memory(Path("/dev/shm"))
    assert not is_in_memory(Path("/proc"))
