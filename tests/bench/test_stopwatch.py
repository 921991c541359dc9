"""The stopwatch of the benchmarks."""

from __future__ import annotations

import pytest

from bench import stopwatch
from bench.stopwatch import Stopwatch


def test_stopwatch_counts_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine was busy with, beyond this process, is the strangers' share."""
    readings = iter([100.0, 1_000.0])
    monkeypatch.setattr(stopwatch, "machine_cpu", lambda: next(readings))
    watch = Stopwatch()
    with watch:
        pass
    assert watch.strangers > 0
    assert watch.wall > 0


def test_stopwatch_that_does_not_look_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """Around a single call it reads clocks and nothing else, or the call would find the caches cold."""
    monkeypatch.setattr(stopwatch, "machine_cpu", lambda: pytest.fail("it has looked around"))
    watch = Stopwatch(looks_around=False)
    with watch:
        pass
    assert watch.strangers == 0
    assert watch.wall > 0
