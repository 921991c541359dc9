"""Every workload runs, here with tiny counts: the figures do not matter, only that there are some."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import math
import time
from pathlib import Path

import attrs
import pytest

from bench import stopwatch
from bench.job import Job, Outcome
from bench.plan import PEERS, WORKLOADS, Choice, Planned, plan
from bench.runs import Runner
from bench.workloads.w5 import W5

TINY = {
    "count": 8, "at_once": 4, "waiting": 4, "sends_at_once": 4, "suspended": 20, "sent": 4, "finished": 20,
    "entries": 9, "rows": 2, "seconds": 0.02, "lead": 0.3, "every": 0.01,
    "rounds": 30, "branches": 20,
}  # fmt: skip
KILLED = W5.cases[0].name
RUNS = plan(Choice(peers=(), repeat=1))
CASES = [run for run in RUNS if run.case.name != KILLED]


def tiny(planned: Planned) -> dict[str, float]:
    """Small sizes. Zero stays zero."""
    return {name: min(value, TINY[name]) for name, value in planned.sizes.items()}


def call(planned: Planned, entry: str, folder: Path) -> Outcome:
    """What the process of a run does, without the process."""
    job = Job(
        workload=planned.workload.name,
        case=planned.case.name,
        contender=planned.contender,
        entry=entry,
        sizes=tiny(planned),
        folder=str(folder),
        answer=str(folder / "answer"),
        repeat=0,
        spawned=time.monotonic(),
    )
    module, _, function = entry.partition(":")
    outcome = asyncio.run(getattr(importlib.import_module(module), function)(job))
    assert isinstance(outcome, Outcome)
    return Outcome.from_json(outcome.to_json())


def check(planned: Planned, figures: dict[str, float]) -> None:
    """All figures are numbers, and there is one to show."""
    assert all(map(math.isfinite, figures.values())), figures
    assert any(column.figure in figures for column in planned.workload.columns)
    assert {"wall_s", "cpu_s", "strangers"} <= figures.keys()


@pytest.mark.parametrize("planned", CASES, ids=lambda run: run.label)
def test_workload_comes_to_figures(planned: Planned, tmp_path: Path) -> None:
    """A case measures what its table shows, on its own store if it needs one."""
    if planned.store is not None:
        call(planned, planned.store.entry, tmp_path)
    outcome = call(planned, planned.entry, tmp_path)
    check(planned, outcome.figures)
    assert outcome.settings


def test_counters_are_not_read_between_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many events are sent one by one, the machine's counters are read twice, around all of them."""
    readings = itertools.count()
    monkeypatch.setattr(stopwatch, "machine_cpu", lambda: float(next(readings)))
    [planned] = [run for run in RUNS if (run.workload.name, run.case.name, run.contender) == ("W3", "alone", "durable")]
    check(planned, call(planned, planned.entry, tmp_path).figures)
    assert next(readings) == 2


def test_workload_after_a_kill_comes_to_figures(tmp_path: Path) -> None:
    """The process that started the workflows dies with its engine open, and the next one continues them."""
    [planned] = [run for run in RUNS if run.case.name == KILLED]
    line = Runner(tmp_path).run(attrs.evolve(planned, sizes=tiny(planned)))
    assert not line.did_not_run
    check(planned, line.figures)
    assert line.figures["ready_s"] <= line.figures["first_s"] <= line.figures["last_s"]


def test_workloads_are_consistent() -> None:
    """No name appears twice, no unknown size is changed, and no peer is measured without durable."""
    assert len({workload.name for workload in WORKLOADS}) == len(WORKLOADS)
    for workload in WORKLOADS:
        assert len({case.name for case in workload.cases}) == len(workload.cases)
        for case in workload.cases:
            assert case.quick.keys() <= case.sizes.keys()
            assert all(changes.keys() <= case.sizes.keys() for changes in case.contenders.values())
            assert not (set(case.contenders) & set(PEERS)) or "durable" in case.contenders
