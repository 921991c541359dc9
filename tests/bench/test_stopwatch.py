"""The stopwatch of the benchmarks."""

from __future__ import annotations

import pytest

from bench import stopwatch
from bench.stopwatch import Stopwatch


def test_stopwatch_counts_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The share of other processes is what the machine did beyond this process."""
    readings = iter([100.0, 1_000.0])
    monkeypatch.setattr(stopwatch, "machine_cpu", lambda: next(readings))
    watch = Stopwatch()
    with watch:
        pass
    assert watch.strangers > 0
    assert watch.wall > 0


def test_stopwatch_for_a_single_call_reads_clocks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Around a single call the stopwatch reads only clocks, so that the call does not start with cold caches."""
    monkeypatch.setattr(stopwatch, "machine_cpu", lambda: pytest.fail("it has looked around"))
    watch = Stopwatch(looks_around=False)
    with watch:
        pass
    assert watch.strangers == 0
    assert watch.wall > 0
