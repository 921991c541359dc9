"""A workflow that takes the process down is set aside after the third time; the others go on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).with_name("scripts.py")


@pytest.mark.timeout(90)
def test_workflow_that_kills_the_process_is_parked(tmp_path: Path) -> None:
    """Two poisonous workflows are parked as crashed after at most three deaths each; all others finish."""
    command = [sys.executable, str(SCRIPTS), "serve_poison", str(tmp_path / "store.db")]
    deaths = 0
    while (process := subprocess.run(command, capture_output=True, text=True, check=False)).returncode == 1:
        assert "Traceback" not in process.stderr
        deaths += 1
        assert deaths <= 6
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    assert found["results"] == [2, 3, 4, 5, 6, 2]
    assert [one.split(":")[0] for one in found["parked"]] == ["poison", "slow-poison"]
    assert found["reasons"] == ["ParkReason.CRASHED"] * 2
    assert deaths >= 3
