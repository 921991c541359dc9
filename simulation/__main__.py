"""The command: `python -m simulation --seed 7`, `--seeds 0:20000 --jobs 2`, `--minutes 30`.

Many seeds print figures, and for the first failing ones the invariant and the command that repeats it. One seed that
fails also prints the smallest scenario found that breaks the same invariant. Save that in a file, and run it with
`--scenario FILE`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from durable.model.clock import SystemClock
from simulation.runs import Runs, run_spread
from simulation.scenario import Scenario, make_scenario, scenario_from_text, scenario_to_text
from simulation.shrink import failure, shrink
from simulation.violation import Violation
from simulation.world import simulate

COMMAND = "python -m simulation"


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0 if every invariant held."""
    options = _parser().parse_args(arguments)
    if options.scenario is not None:
        return run_one(scenario_from_text(Path(options.scenario).read_text()), f"--scenario {options.scenario}")
    if options.seed is not None:
        return run_one(make_scenario(options.seed), f"--seed {options.seed}")
    first, _, last = (options.seeds or "0:").partition(":")
    seconds = None if options.minutes is None else options.minutes * 60
    if not last and seconds is None:
        last = str(int(first) + 1_000)
    clock = SystemClock()
    begun = clock.monotonic()
    runs = run_spread(int(first), int(last) if last else None, jobs=options.jobs, clock=clock, seconds=seconds)
    return report(runs, clock.monotonic() - begun)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=COMMAND, description="Simulate engines, their clients and their faults.")
    parser.add_argument("--seed", type=int, help="run one seed; if it fails, make its scenario smaller")
    parser.add_argument("--scenario", help="run the scenario in this file")
    parser.add_argument("--seeds", help="run the seeds A:B without B, or from A: on")
    parser.add_argument("--minutes", type=float, help="run for this many minutes")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes")
    return parser


def run_one(scenario: Scenario, option: str) -> int:
    """Run one scenario and print how it went. Returns the exit code."""
    violation = failure(scenario)
    if violation is None:
        world = simulate(scenario)
        say([*world.figures.lines(0.0)[:-1], f"trace {world.checker.trace.fingerprint()}"])
        return 0
    tell(violation, option)
    say(["made smaller:", scenario_to_text(shrink(scenario, violation.invariant))])
    return 1


def report(runs: Runs, seconds: float) -> int:
    """Print the figures of many seeds, and the first five failures. Returns the exit code."""
    say([*runs.figures.lines(seconds), f"{'violations':16} {len(runs.failures):>14,}"])
    for seed, violation in sorted(runs.failures.items())[:5]:
        tell(violation, f"--seed {seed}")
    return 1 if runs.failures else 0


def tell(violation: Violation, option: str) -> None:
    """Print a violation, and the command that repeats it."""
    say([f"VIOLATION {violation}"[:2_000], *violation.notes()[:1], f"repeat it: {COMMAND} {option}"])


def say(lines: Iterable[str]) -> None:
    """Print these lines."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    sys.exit(main())
