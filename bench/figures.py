"""Medians, percentiles, and many calls at a time. Only the standard library."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that is not exceeded by at least this share (0 to 1) of all values."""
    if not values:
        raise ValueError("a percentile needs at least one value")
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def latencies(seconds: Sequence[float], prefix: str = "") -> dict[str, float]:
    """The median and the 99th percentile, in milliseconds."""
    return {f"{prefix}p50_ms": percentile(seconds, 0.5) * 1e3, f"{prefix}p99_ms": percentile(seconds, 0.99) * 1e3}


async def many(count: int, at_once: int, call: Callable[[int], Awaitable[object]]) -> list[float]:
    """Make `count` numbered calls, `at_once` at a time: when one ends, the next begins. Returns the seconds of each."""
    took = [0.0] * count
    numbers = iter(range(count))

    async def client() -> None:
        for number in numbers:
            began = time.perf_counter()
            await call(number)
            took[number] = time.perf_counter() - began

    async with asyncio.TaskGroup() as clients:
        for _ in range(min(count, at_once)):
            clients.create_task(client())
    return took
