"""A workflow that kills the process is parked after the third time; the others continue."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).with_name("scripts.py")
# Each of the two: three crashes on its own, after the seven that run activities were halved down to it.
_DEATHS_MAX = 2 * (3 + 3)


@pytest.mark.timeout(90)
def test_workflow_that_kills_the_process_is_parked(tmp_path: Path) -> None:
    """Two workflows that kill the process are found among seven and parked as crashed; all others finish."""
    command = [sys.executable, str(SCRIPTS), "serve_poison", str(tmp_path / "store.db")]
    deaths = 0
    while (process := subprocess.run(command, capture_output=True, text=True, check=False)).returncode == 1:
        assert "Traceback" not in process.stderr
        deaths += 1
        assert deaths <= _DEATHS_MAX
    assert process.returncode == 0, process.stderr
    answer = json.loads(process.stdout)
    assert answer["results"] == [2, 3, 4, 5, 6, 2]
    assert [line.split(":")[0] for line in answer["parked"]] == ["poison", "slow-poison"]
    assert answer["reasons"] == ["ParkReason.CRASHED"] * 2
    assert deaths >= 3
