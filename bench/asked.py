"""How long another process waits for a list of 100 runs while an engine is busy, and what that costs the engine.

    python -m bench.asked [SECONDS_BETWEEN_ASKS]

The engine runs W1's load (workflows of ten steps, 100 at once) in turns: without a client, and with one in another
process that asks again and again. It prints the rates, the slowdown in time and in CPU, and the times of the answers.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio
import anyio.to_thread
import attrs

from bench.drivers.durable import STORE, opened
from bench.figures import many
from durable import WorkflowClient
from durable.backends.sqlite.owner import control_path

AT_ONCE, COUNT, STEPS, ROUNDS = 100, 5_000, 10, 7


async def poll(path: str, pause: float) -> None:
    """Ask until the engine ends, then print the times of the answers in milliseconds."""
    times = []
    print("ready", flush=True)
    async with WorkflowClient(path) as client:
        while control_path(path) is not None:
            began = time.perf_counter()
            assert len(await client.runs.list(limit=100)) == 100
            times.append((time.perf_counter() - began) * 1e3)
            await anyio.sleep(pause)
    print(json.dumps(times), flush=True)


@attrs.frozen
class Round:
    """A round: steps per second, the engine's CPU time per step in µs, and the times of answers in ms."""

    rate: float
    cpu: float
    answers: list[float]


async def load(folder: Path, pause: float | None) -> Round:
    """One round, with a client that asks again after `pause` seconds, or without one."""
    client = None
    async with opened(folder) as driver:
        await many(500, AT_ONCE, lambda number: driver.run(f"warm-{number}", STEPS))
        if pause is not None:
            client = await _start_client(folder, pause)
        began, cpu = time.perf_counter(), time.process_time()
        await many(COUNT, AT_ONCE, lambda number: driver.run(f"w{number}", STEPS))
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
    answers = json.loads(client.communicate()[0]) if client is not None else []
    return Round(COUNT * STEPS / took, cpu / (COUNT * STEPS) * 1e6, answers)


async def _start_client(folder: Path, pause: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.asked", "poll", str(folder / STORE), str(pause)]
    client = await anyio.to_thread.run_sync(
        lambda: subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    )
    assert client.stdout is not None
    await anyio.to_thread.run_sync(client.stdout.readline)
    return client


async def main(pause: float) -> None:
    """Alternate rounds without and with a client, so that a slow moment of the machine hits both."""
    alone: list[Round] = []
    asked: list[Round] = []
    for _ in range(ROUNDS):
        for between, rounds in ((None, alone), (pause, asked)):
            with tempfile.TemporaryDirectory() as folder:
                rounds.append(await load(Path(folder), between))
    for name, rounds in (("alone", alone), (f"asked every {pause} s", asked)):
        rate, cpu = (statistics.median(getattr(each, field) for each in rounds) for field in ("rate", "cpu"))
        print(f"{name}: {rate:,.0f} steps/s, CPU a step {cpu:.1f} µs")
    pairs = list(zip(alone, asked, strict=True))
    print(
        "slower by", f"{statistics.median(1 - with_client.rate / without.rate for without, with_client in pairs):.1%}"
    )
    print("more CPU", f"{statistics.median(with_client.cpu / without.cpu - 1 for without, with_client in pairs):.1%}")
    times = sorted(time for each in asked for time in each.answers)
    at = {share: times[int(len(times) * share)] for share in (0.5, 0.9, 0.99)}
    shown = ", ".join(f"p{share * 100:.0f} {milliseconds:.1f} ms" for share, milliseconds in at.items())
    print(f"{len(times)} answers: {shown}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["poll"]:
        anyio.run(poll, sys.argv[2], float(sys.argv[3]))
    else:
        anyio.run(main, float(sys.argv[1]) if sys.argv[1:] else 1.0)
