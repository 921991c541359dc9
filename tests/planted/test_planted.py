"""The checkers are not blind: the simulation notices each promise that is broken on purpose."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from durable.engine.coordinator.coordinator import WorkflowStateCoordinator
from simulation.runs import run_seeds
from simulation.scenario import make_scenario
from simulation.shrink import failure
from tests.planted import nursery
from tests.planted.planting import BUGS, Bug, Planter

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def plant() -> Iterator[Callable[[str], Any]]:
    """Plants a bug in another process, without coverage, and returns who noticed it."""
    unmeasured = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE")}
    command = [sys.executable, "-m", "tests.planted.nursery"]
    pipes = subprocess.Popen(
        command, cwd=ROOT, env=unmeasured, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    with pipes as process:
        questions, answers = process.stdin, process.stdout
        assert questions is not None
        assert answers is not None

        def ask(name: str) -> Any:
            questions.write(f"{name}\n")
            return json.loads(answers.readline())

        yield ask
        questions.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_noticed(name: str, plant: Callable[[str], Any]) -> None:
    """The simulation notices this bug within its budget of seeds, by an invariant that is about the promise."""
    answer = plant(name)
    assert answer is not None, f"nobody notices: {BUGS[name].promise}"
    assert isinstance(answer, list), answer
    noticed_by = BUGS[name].noticed_by
    assert not noticed_by or answer[0] in noticed_by, answer


def test_a_bug_that_raises_is_reported(plant: Callable[[str], Any]) -> None:
    """An error that is not a violation does not count as noticed, and the next bug can still be planted."""
    assert "KeyError" in plant("no such bug")
    assert isinstance(plant("released_before_the_commit"), list)


def test_without_a_bug_the_same_seeds_hold() -> None:
    """The bug alone is noticed: without it, the first seeds of all bugs break nothing."""
    assert run_seeds(sorted({bug.seed for bug in BUGS.values()})).failures == {}


def test_every_bug_is_planted_and_put_back() -> None:
    """There are many bugs. Each states a promise and replaces something, and everything is put back."""
    assert len(nursery.FILES) >= 4
    assert len(BUGS) >= 180
    for bug in BUGS.values():
        assert bug.promise
        with bug.planted() as planter:
            functions = [(vars(owner), name, vars(owner)[name]) for owner, name in planter.replaced]
            rows = [(table, kind, table[kind]) for table, kind in planter.changed_rows]
        assert functions or rows
        assert all(owner[name] is not planted for owner, name, planted in functions)
        assert all(table[kind] is not planted for table, kind, planted in rows)


def test_a_bug_that_replaces_nothing_is_an_error() -> None:
    """A bug whose function was renamed raises an error, and what it had already replaced is put back."""
    first = next(iter(BUGS.values()))

    def plant(planter: Planter) -> None:
        first.plant(planter)

        def no_such_function() -> None:
            pass

        planter.replace(Planter, no_such_function)

    before = vars(WorkflowStateCoordinator).copy()
    with pytest.raises(LookupError, match="no_such_function"), attrs.evolve(first, plant=plant).planted():
        pass
    assert vars(WorkflowStateCoordinator) == before


def test_a_bug_that_nobody_notices_gets_no_answer() -> None:
    """A plant that breaks no promise is not noticed: the search for a violation can come back empty."""
    harmless = Bug("harmless", "none", ("I1",), 0, lambda planter: planter.replace(Bug, Bug.planted))
    with harmless.planted():
        assert failure(make_scenario(harmless.seed)) is None
