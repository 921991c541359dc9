"""W9: a loop of many rounds, and a gather of many branches: what grows with their number?"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

from bench.drivers.durable import STORE, opened, step
from bench.job import Job, Outcome
from bench.stopwatch import Stopwatch, resident
from bench.workload import Case, Column, Workload
from durable import Break, Continue, Durable, WorkflowEngine, activity, gather, loop, workflow

ROUNDS = (1_000, 10_000, 100_000)
BRANCHES = (10, 100, 1_000)

W9 = Workload(
    name="W9",
    title="Long and wide",
    about="One workflow alone: a loop with one activity a round, each stored before the next begins, and gathers of "
    "activities, one after the other. Neither the time of one activity nor the rows that are left may grow with "
    "their number.",
    entry="bench.workloads.w9:long",
    cases=(
        *(
            Case(
                name=f"{rounds:,} rounds",
                sizes={"rounds": rounds},
                quick={"rounds": rounds // 50},
                repeats_max=1 if rounds == ROUNDS[-1] else 3,
            )
            for rounds in ROUNDS
        ),
        *(
            Case(
                name=f"{branches:,} branches",
                sizes={"branches": branches, "count": 20_000 // branches},
                quick={"count": max(1, 500 // branches)},
                entry="bench.workloads.w9:wide",
                repeats_max=3,
            )
            for branches in BRANCHES
        ),
    ),
    columns=(
        Column(figure="each_us", heading="a round or branch, µs"),
        Column(figure="cpu_us", heading="CPU of it, µs"),
        Column(figure="drift", heading="CPU of the last tenth against the first", format=",.2f"),
        Column(figure="grown_mib", heading="memory grown by, MiB", format=",.1f"),
        Column(figure="rows", heading="rows of history left"),
    ),
)


class Tenths:
    """The CPU time of this process at every tenth of a loop, to compare early rounds with late ones."""

    def __init__(self) -> None:
        self._every = 1
        self._marks: list[float] = []

    def begin(self, rounds: int) -> None:
        """A loop of this many rounds begins."""
        self._every = max(1, rounds // 10)
        self._marks.clear()

    def pass_by(self, left: int) -> None:
        """A round begins. `left` rounds are left, this one included."""
        if left % self._every == 0:
            self._marks.append(time.process_time())

    @property
    def drift(self) -> float:
        """The CPU time of the last tenth divided by that of the first."""
        first, second, *_, last = self._marks
        return (time.process_time() - last) / (second - first)


_TENTHS = Tenths()


@activity(name="bench-tick")
async def tick(left: int) -> int:
    """One round."""
    _TENTHS.pass_by(left)
    return left


def body(left: int) -> Durable[Continue[int] | Break[int]]:
    """A round with one activity."""
    yield from tick(left)
    return Continue(left - 1) if left > 1 else Break(0)


@workflow(name="bench-rounds")
def rounds_of(count: int) -> Durable[int]:
    """A loop of `count` rounds."""
    return (yield from loop(body, count))


@workflow(name="bench-branches")
def branches_of(count: int) -> Durable[int]:
    """A gather of `count` branches."""
    return len((yield from gather(*[step(number) for number in range(count)])))


async def long(job: Job) -> Outcome:
    """One loop, after a short one that warms everything up."""
    rounds = job.size("rounds")
    async with opened(job.path) as driver:
        _TENTHS.begin(rounds)
        await _run_long(driver.engine, "warm", max(1, rounds // 10))
        before = resident()
        _TENTHS.begin(rounds)
        stopwatch = Stopwatch()
        with stopwatch:
            await _run_long(driver.engine, "run", rounds)
            drift = _TENTHS.drift
        grown, settings = resident() - before, driver.settings
    return Outcome(_figures(job, stopwatch, rounds, grown, 1) | {"drift": drift}, settings)


async def wide(job: Job) -> Outcome:
    """Many gathers, one after the other."""
    branches, count = job.size("branches"), job.size("count")
    async with opened(job.path) as driver:
        for number in range(max(1, count // 10)):
            await _run_wide(driver.engine, f"warm-{number}", branches)
        before = resident()
        stopwatch = Stopwatch()
        with stopwatch:
            for number in range(count):
                await _run_wide(driver.engine, f"run-{number}", branches)
        grown, settings = resident() - before, driver.settings
    return Outcome(_figures(job, stopwatch, branches * count, grown, count), settings)


async def _run_long(engine: WorkflowEngine, id: str, rounds: int) -> None:
    handle = await engine.start(rounds_of(rounds), id=id)
    assert await handle.result() == 0


async def _run_wide(engine: WorkflowEngine, id: str, branches: int) -> None:
    handle = await engine.start(branches_of(branches), id=id)
    assert await handle.result() == branches


def _figures(job: Job, stopwatch: Stopwatch, total: int, grown: float, runs: int) -> dict[str, float]:
    """The time of one round or branch, and the rows that are left of one run."""
    with closing(sqlite3.connect(job.path / STORE)) as connection:
        sql = "SELECT count(*) FROM history JOIN workflow ON workflow.key = history.workflow WHERE id LIKE 'run%'"
        (rows,) = connection.execute(sql).fetchone()
    times = stopwatch.figures()
    return times | {
        "each_us": times["wall_s"] / total * 1e6,
        "cpu_us": times["cpu_s"] / total * 1e6,
        "grown_mib": grown,
        "rows": rows / runs,
    }
