"""A plain activity that was abandoned keeps running in its thread, and does not keep the process from exiting."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# An activity that never returns; the engine abandons it; then the program exits like any other.
SCRIPT = """
import sys, threading
import anyio
from durable import Durable, EngineConfig, Retry, WorkflowEngine, activity, workflow

begun = threading.Event()

def hang() -> None:
    begun.set()
    threading.Event().wait()

hang_with_limit = activity(hang, name="limit", timeout=0.05, retry=Retry.never())
hang_without = activity(hang, name="hang")

@workflow
def run(is_limited: bool) -> Durable[None]:
    yield from (hang_with_limit() if is_limited else hang_without())

async def main(how: str, backend: str) -> None:
    async with WorkflowEngine(sys.argv[1], config=EngineConfig(drain=0)) as engine:
        handle = await engine.start(run(how == "timed out"))
        while not begun.is_set():
            await anyio.sleep(0)
        if how == "cancelled":
            await handle.cancel()
        if how != "drained":
            try:
                await handle.result()
            except Exception as error:
                print(type(error).__name__, flush=True)

anyio.run(main, *sys.argv[2:4], backend=sys.argv[3])
print("left", flush=True)
"""
ENDS = {"timed out": ["WorkflowFailed"], "cancelled": ["WorkflowCancelled"], "drained": []}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("how", ENDS)
def test_process_ends_though_a_thread_was_given_up(tmp_path: Path, how: str, backend: str) -> None:
    """Timed out, cancelled or cut off by a shutdown: the interpreter does not wait for the thread."""
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "store.db"), how, backend]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    assert (ended.stdout.split(), ended.returncode) == ([*ENDS[how], "left"], 0), ended.stderr
    assert "Traceback" not in ended.stderr
