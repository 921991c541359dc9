"""`make soak MINUTES=30`: everything that tries to break the engine, for as long as you like, and a page of figures.

One process simulates seeds that `make test` does not have. Another takes turns: it kills a real service on a real file
again and again, and cuts the power under it. The first broken promise is printed with what repeats it, and makes the
exit code 1.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

import attrs

from durable.model.clock import SystemClock
from simulation.runs import Runs, run_spread
from tests.power import cuts
from tests.processes import kills

# Beyond the seeds of `make test`.
FIRST_SEED = 1_000_000
KILLS, IMAGES = 40, 60


@attrs.define
class Page:
    """The figures of a soak."""

    minutes: float
    kills: kills.Figures = attrs.field(factory=kills.Figures)
    images: int = 0
    lost_tails: int = 0
    # Power cuts under FULL. The others are under NORMAL, which may lose the last commits.
    full_images: int = 0
    problems: list[str] = attrs.field(factory=list)

    def lines(self, runs: Runs, first_seed: int) -> list[str]:
        """The page, for people."""
        simulated, killed = runs.figures, self.kills
        last = first_seed + simulated.seeds - 1
        rows = [
            ("minutes", f"{self.minutes:.1f}"),
            ("simulated seeds", f"{simulated.seeds:,} ({first_seed} to {last})"),
            ("  transitions", f"{simulated.transitions:,}"),
            ("  of them operations decided", f"{simulated.operations:,}"),
            ("  commits", f"{simulated.commits:,}"),
            ("  crashes", f"{simulated.crashes:,}"),
            ("  other faults", f"{simulated.faults:,}"),
            ("  workflows", f"{simulated.workflows:,}"),
            ("  activities run", f"{simulated.activities:,}"),
            ("  virtual time", f"{simulated.virtual_seconds / 86_400:,.1f} days"),
            ("kill -9 of real processes", f"{killed.kills:,} ({killed.kills_under_load:,} of them under load)"),
            ("  workflows finished", f"{killed.workflows:,}"),
            ("  activities run", f"{killed.executions:,}"),
            ("  acknowledged starts, events, cancels", f"{killed.starts:,} {killed.events:,} {killed.cancels:,}"),
            ("power cuts", f"{self.images:,} ({self.full_images:,} of them with synchronous=FULL)"),
            ("  NORMAL that lost a tail", f"{self.lost_tails:,}, each a consistent prefix"),
            ("broken promises", f"{len(runs.failures) + len(self.problems)}"),
        ]
        failures = [f"seed {seed}: {violation}" for seed, violation in sorted(runs.failures.items())]
        return [*(f"{name:40} {value}" for name, value in rows), *failures, *self.problems]


def _kill(page: Page, number: int) -> None:
    with tempfile.TemporaryDirectory(prefix="durable-soak-") as folder:
        page.kills += kills.kill_cycles(Path(folder), KILLS, FIRST_SEED + number, ("FULL", "NORMAL")[number % 2])


def _cut(page: Page, number: int) -> None:
    cut = cuts.power_cuts(FIRST_SEED + number, IMAGES, synchronous=("FULL", "NORMAL")[number % 2])
    page.images += cut.images
    page.full_images += cut.images * (number % 2 == 0)
    page.lost_tails += cut.lost_tails


TURNS: tuple[Callable[[Page, int], None], ...] = (_kill, _cut)


def soak(minutes: float, first_seed: int, page: Page) -> Runs:
    """Run for this long. Returns the figures of the simulation; the others are on the page."""
    seconds = minutes * 60
    end = time.monotonic() + seconds
    with ProcessPoolExecutor(1) as pool:
        simulation: Future[Runs] = pool.submit(_simulate, first_seed, seconds)
        for number in itertools.count():
            if time.monotonic() >= end or page.problems:
                break
            for turn in TURNS:
                try:
                    turn(page, number)
                except Exception:
                    page.problems.append(f"{turn.__name__} {number}:\n{traceback.format_exc()}")
            left = max(0.0, end - time.monotonic()) / 60
            _say([f"{left:6.1f} minutes left, {page.kills.kills} kills, {page.images} power cuts"])
        return simulation.result()


def _simulate(first_seed: int, seconds: float) -> Runs:
    return run_spread(first_seed, None, jobs=1, clock=SystemClock(), seconds=seconds)


def _say(lines: list[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def main() -> int:
    """Returns the exit code: 0 if every promise was kept."""
    parser = argparse.ArgumentParser(prog="make soak", description="Try to break the engine for a while.")
    parser.add_argument("--minutes", type=float, default=30.0, help="for how long (30)")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED, help="where the simulation begins")
    options = parser.parse_args()
    page = Page(options.minutes)
    runs = soak(options.minutes, options.first_seed, page)
    _say(page.lines(runs, options.first_seed))
    return 1 if runs.failures or page.problems else 0


if __name__ == "__main__":
    sys.exit(main())
