"""Many seeds, one after the other or spread over processes: their figures, and the seeds that failed."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

import attrs

from durable.model.clock import Clock
from simulation.figures import Figures
from simulation.scenario import make_scenario
from simulation.shrink import failure
from simulation.violation import Violation
from simulation.world import simulate

# How many seeds a process takes at once, and after how many it collects garbage. A seed leaves half a megabyte.
CHUNK = 50
COLLECT_EVERY = 500


@attrs.define
class Runs:
    """The results of many seeds."""

    figures: Figures = attrs.field(factory=Figures)
    # The seeds that broke an invariant, with the violation.
    failures: dict[int, Violation] = attrs.field(factory=dict)

    def add(self, other: Runs) -> None:
        """Add the results of other seeds."""
        self.figures += other.figures
        self.failures |= other.failures


def run_seeds(seeds: Iterable[int]) -> Runs:
    """Run these seeds in this process."""
    runs = Runs()
    with _without_collector():
        for count, seed in enumerate(seeds):
            if count and count % COLLECT_EVERY == 0:
                gc.collect()
            try:
                runs.figures += simulate(make_scenario(seed), is_traced=False).figures
            except Violation as violation:
                runs.figures += Figures(seeds=1)
                # Again, with the trace that shows what led to it.
                runs.failures[seed] = failure(make_scenario(seed)) or violation
    return runs


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Without automatic garbage collection: a world is a heap of cycles that lives for milliseconds.

    Collecting all the time takes a fifth of the run.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


def run_spread(first: int, last: int | None, *, jobs: int, clock: Clock, seconds: float | None = None) -> Runs:
    """Run the seeds from `first` on in several processes: up to `last`, which is not run, or until the time is over."""
    runs = Runs()
    end = None if seconds is None else clock.monotonic() + seconds
    with ProcessPoolExecutor(jobs) as pool:
        working: set[Future[Runs]] = set()
        while True:
            while len(working) < 2 * jobs and not _is_over(first, last, end, clock):
                count = CHUNK if last is None else min(CHUNK, last - first)
                working.add(pool.submit(_run_chunk, range(first, first + count)))
                first += count
            if not working:
                return runs
            done, working = wait(working, return_when=FIRST_COMPLETED)
            for chunk in done:
                runs.add(chunk.result())


def _run_chunk(seeds: range) -> Runs:
    """Run seeds in a worker process, and clean up for its next chunk."""
    runs = run_seeds(seeds)
    gc.collect()
    return runs


def _is_over(first: int, last: int | None, end: float | None, clock: Clock) -> bool:
    return (last is not None and first >= last) or (end is not None and clock.monotonic() >= end)
