"""A forked child leaves the block of its parent's engine, as any program leaves a block."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# While an activity runs: the child has a copy of its task as well.
SCRIPT = """
import os, sys
import anyio
from durable import Durable, EngineForked, WorkflowEngine, activity, workflow

begun = anyio.Event()
may_end = anyio.Event()

@activity
async def work() -> int:
    begun.set()
    await may_end.wait()
    return 3

@workflow
def run() -> Durable[int]:
    return (yield from work())

async def main(end: str) -> None:
    engine = WorkflowEngine(sys.argv[1])
    async with engine:
        handle = await engine.start(run(), id="a")
        await begun.wait()
        if (child := os.fork()) == 0:
            if end == "exit":
                sys.exit(7)
            if end == "fail":
                raise KeyError("mine")
        else:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            may_end.set()
            print(code, await handle.result(), flush=True)
    if child == 0:
        try:
            await engine.__aenter__()
        except EngineForked:
            os._exit(8)

anyio.run(main, sys.argv[2], backend=sys.argv[3])
"""


# A child that runs trio's loop to its end takes the parent's wake-ups with it, whatever it runs; so there it just ends.
@pytest.mark.parametrize(
    ("end", "code", "backend"),
    [("exit", 7, "asyncio"), ("fail", 1, "asyncio"), ("fall through", 8, "asyncio"), ("fall through", 8, "trio")],
)
def test_forked_child_leaves_the_block_at_once(tmp_path: Path, end: str, code: int, backend: str) -> None:
    """The child does not wait for tasks that exist only in its parent, and the parent's engine keeps working."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT, str(tmp_path / "a.db"), end, backend]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=15)
    assert (ended.returncode, ended.stdout) == (0, f"{code} 3\n"), ended.stderr
