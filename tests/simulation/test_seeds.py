"""The simulation itself: thousands of seeds, and no broken invariant."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from simulation.runs import run_seeds

# What `make test` runs: chunks of seeds, and the minimum that each must contain; `SHARDED` seeds have two or three
# shards.
CHUNKS, SEEDS, SHARDED = 8, 800, 320
TRANSITIONS, OPERATIONS, CRASHES = 200_000, 100_000, 2_000
# Not measured for coverage; the seeds below are. It never collects garbage and exits without cleaning up, because
# freeing thousands of dead engines takes a tenth of the time.
_SCRIPT = """
import gc, json, os, sys, attrs
gc.disable()
from simulation.runs import run_seeds
runs = run_seeds(range(int(sys.argv[1]), int(sys.argv[2])))
failures = {seed: str(violation) for seed, violation in runs.failures.items()}
figures = {**attrs.asdict(runs.figures), "transitions": runs.figures.transitions}
print(json.dumps({"figures": figures, "failures": failures}), flush=True)
os._exit(0)
"""


def _run_apart(first: int, last: int) -> dict[str, Any]:
    """Run seeds in another process."""
    command = [sys.executable, "-c", _SCRIPT, str(first), str(last)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.timeout(600)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_invariants_hold(chunk: int) -> None:
    """In 800 scenarios with crashes and other faults, no invariant is broken. `--seed N` repeats one."""
    answer = _run_apart(chunk * SEEDS, (chunk + 1) * SEEDS)
    assert answer["failures"] == {}
    figures = answer["figures"]
    assert figures["seeds"] == SEEDS
    assert figures["clusters"] >= SHARDED
    assert figures["transitions"] >= TRANSITIONS
    assert figures["operations"] >= OPERATIONS
    assert figures["crashes"] >= CRASHES


@pytest.mark.timeout(120)
def test_invariants_hold_where_coverage_sees_it() -> None:
    """In this process, which measures coverage, no invariant is broken in a few further seeds."""
    runs = run_seeds(range(1_000_000, 1_000_020))
    assert runs.failures == {}
    assert runs.figures.crashes > 20
