"""The public API against its model: random calls, restarts and activities; one claim after every step."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.statemachine.direct import Direct
from tests.statemachine.machine import Machine
from tests.statemachine.public import Public

# In parts, so that they can be spread over processes; each has a seed of its own.
EXAMPLES, STEPS, PARTS = 1_000, 50, 8


def run(make: Any, *, number: int, examples: int, steps: int) -> None:
    """Some examples of a machine, always the same ones for a number."""
    machine = seed(number)(type("Machine", (Machine,), {"make": make}))
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            # What failed once is kept as a test and not in a database beside the sources.
            database=None,
            phases=[Phase.generate, Phase.shrink],
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(PARTS))
def test_engine_does_what_the_model_says(part: int) -> None:
    """Whatever is called in whatever order, the engine answers, stands and waits as the model says."""
    run(Direct, number=part, examples=EXAMPLES // PARTS, steps=STEPS)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(2))
def test_threads_and_files_do_what_the_model_says(part: int) -> None:
    """The same through the public engine with its threads and a SQLite file, in virtual time."""
    run(Public, number=100 + part, examples=25, steps=30)
