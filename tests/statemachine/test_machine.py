"""The public API against its model: random calls, restarts and activities, compared after every step."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.statemachine.direct import Direct
from tests.statemachine.machine import Machine
from tests.statemachine.public import Public

# In parts, so that they can be spread over processes. Each part has its own seed.
EXAMPLES, STEPS, PARTS = 1_000, 50, 8


def run(make: Any, *, number: int, examples: int, steps: int) -> None:
    """Some examples of a machine, always the same for a number."""
    machine = seed(number)(type("Machine", (Machine,), {"make": make}))
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            # A failing example is kept as a test, not in a database beside the sources.
            database=None,
            phases=[Phase.generate, Phase.shrink],
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(PARTS))
def test_engine_does_what_the_model_says(part: int) -> None:
    """Whatever is called in whatever order, the engine answers as the model says, and both look the same."""
    run(Direct, number=part, examples=EXAMPLES // PARTS, steps=STEPS)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(2))
def test_threads_and_files_do_what_the_model_says(part: int) -> None:
    """The public engine, with its threads and a SQLite file in virtual time, does what the model says."""
    run(Public, number=100 + part, examples=25, steps=30)
