"""Killed with SIGKILL at any point, 320 times: no acknowledged work is lost, no recorded activity runs again."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from tests.processes.kills import kill_cycles

KILLS = 80


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("seed", "synchronous"), [(1, "FULL"), (2, "FULL"), (3, "NORMAL"), (4, "NORMAL")])
def test_service_survives_every_kill(tmp_path: Path, seed: int, synchronous: Literal["FULL", "NORMAL"]) -> None:
    """After eighty kills every workflow ends rightly, each result was used once, and all that was acknowledged holds.

    NORMAL may lose the last commits when the power fails; the death of the process must cost it nothing either.
    """
    figures = kill_cycles(tmp_path, KILLS, seed, synchronous, cancels=KILLS // 4 + 1)
    assert figures.kills >= KILLS
    assert figures.kills_under_load > figures.kills / 2
    assert figures.workflows > KILLS
    assert figures.executions > 4 * figures.workflows
    assert min(figures.starts, figures.events, figures.cancels) > KILLS / 4
