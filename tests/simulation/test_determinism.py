"""One seed is one story: the same in every run and every process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from simulation.scenario import make_scenario, scenario_from_text, scenario_to_text
from simulation.world import simulate


def _fingerprint(seed: int) -> str:
    return simulate(make_scenario(seed)).checker.trace.fingerprint()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_seed_gives_the_same_trace_again(seed: int) -> None:
    """Two runs of a seed leave the same trace, and another seed leaves a different one."""
    assert _fingerprint(seed) == _fingerprint(seed)
    assert _fingerprint(seed) != _fingerprint(seed + 100)


def test_trace_does_not_depend_on_the_process() -> None:
    """Processes that order their sets differently leave the same trace."""
    command = [sys.executable, "-m", "simulation", "--seed", "4"]
    traces = {
        subprocess.run(
            command, env=os.environ | {"PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True
        ).stdout.splitlines()[-1]
        for hash_seed in ("1", "2")
    }
    assert traces == {f"trace {_fingerprint(4)}"}


@pytest.mark.parametrize("seed", range(5))
def test_scenario_survives_being_written_down(seed: int) -> None:
    """A scenario that is written as text and read back is the same."""
    scenario = make_scenario(seed)
    assert scenario_from_text(scenario_to_text(scenario)) == scenario
