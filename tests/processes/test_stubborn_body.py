"""A body that catches every exception cannot be closed, and must not keep its process from exiting."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FLOWS = """
from durable import Durable, sleep, workflow

@workflow
def stubborn() -> Durable[None]:
    while True:
        try:
            yield from sleep(60)
        except BaseException:
            pass
"""

MAIN = """
import asyncio
import sys
import flows
from durable import WorkflowEngine

async def main() -> None:
    async with WorkflowEngine(sys.argv[1]) as engine:
        await engine.start(flows.stubborn(), id="w")

asyncio.run(main())
print("left")
"""


def test_stubborn_body_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    """The engine closes, names the workflow that did not close, and the interpreter exits."""
    (tmp_path / "flows.py").write_text(FLOWS)
    command = [sys.executable, "-c", MAIN, str(tmp_path / "a.db")]
    ended = subprocess.run(command, cwd=tmp_path, timeout=20, check=True, capture_output=True, text=True)
    assert ended.stdout == "left\n"
    assert "workflow w (stubborn) could not be closed in order" in ended.stderr
