"""The checkers are not blind: each promise that is broken on purpose is noticed by the simulation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from durable.engine.coordinator import WorkflowStateCoordinator
from durable.testing.simulation.runs import run_seeds
from durable.testing.simulation.scenario import make_scenario
from durable.testing.simulation.shrink import failure
from tests.planted import bugs_of_commits, bugs_of_events, bugs_of_lives, bugs_of_steps
from tests.planted.planting import BUDGET, BUGS, Bug, Planter

ROOT = Path(__file__).parents[2]
# Importing them fills the table.
FILES = (bugs_of_commits, bugs_of_events, bugs_of_lives, bugs_of_steps)
# Every bug has a process of its own, so that none can leak; what it prints is who noticed it, and when.
_SCRIPT = """
import json, sys
from tests.planted.test_planted import notice
print(json.dumps(notice(sys.argv[1])))
"""


def notice(name: str) -> tuple[str, int, str] | None:
    """Plant a bug in this process: the invariant that notices it, the seed, and what was seen."""
    bug = BUGS[name]
    with bug.planted():
        for seed in range(bug.seed, bug.seed + BUDGET):
            if (violation := failure(make_scenario(seed))) is not None:
                return violation.invariant, seed, violation.what[:500]
    return None


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_noticed(name: str) -> None:
    """The simulation notices this bug within its budget of seeds, by an invariant that speaks of the broken promise."""
    unmeasured = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE")}
    command = [sys.executable, "-c", _SCRIPT, name]
    done = subprocess.run(command, cwd=ROOT, env=unmeasured, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer is not None, f"nobody notices: {BUGS[name].promise}"
    noticed_by = BUGS[name].noticed_by
    assert not noticed_by or answer[0] in noticed_by, answer


def test_without_a_bug_the_same_seeds_hold() -> None:
    """It is the bug that is noticed: without one the first seeds of all bugs break nothing."""
    assert run_seeds(sorted({bug.seed for bug in BUGS.values()})).failures == {}


def test_every_bug_is_planted_and_put_back() -> None:
    """There are many bugs, each says what it breaks and truly replaces something, and nothing of it stays."""
    assert len(BUGS) >= 80
    for bug in BUGS.values():
        assert bug.promise
        with bug.planted() as planter:
            changed = {(owner, name): vars(owner)[name] for owner, name in planter.replaced}
        assert changed
        assert all(vars(owner)[name] is not planted for (owner, name), planted in changed.items())


def test_a_bug_that_replaces_nothing_is_an_error() -> None:
    """A function that was renamed makes its bugs fail, and what was planted before is put back."""
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


def test_a_bug_that_nobody_notices_is_found_out() -> None:
    """A plant that breaks no promise gets no answer: the search for a violation can come back with nothing."""
    harmless = Bug("harmless", "none", ("I1",), 0, lambda planter: planter.replace(Bug, Bug.planted))
    with harmless.planted():
        assert failure(make_scenario(harmless.seed)) is None
