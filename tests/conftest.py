"""What every test gets: both event loops, a way for hypothesis to behave, and coverage where it tells something."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest
from hypothesis import settings

# Examples start engines and databases; how long one takes on a busy machine says nothing about its correctness.
settings.register_profile("durable", deadline=None)
settings.load_profile("durable")

# What these reach others reach as well, and measuring makes them two to three times slower: engines by the thousand,
# and processes that are killed before they could tell what they have reached.
UNMEASURED = (
    "tests/bench/",
    "tests/exhaustive/",
    "tests/fuzz/",
    "tests/growth/",
    "tests/planted/",
    "tests/power/",
    "tests/processes/",
    "tests/scenarios/test_damaged_rows.py",
    "tests/scenarios/test_damaged_schedules.py",
    "tests/simulation/test_seeds.py::test_invariants_hold[",
    "tests/statemachine/",
    "tests/test_house.py",
)


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Leave out of the measurement what is slow and tells nothing new."""
    for item in items:
        if item.nodeid.startswith(UNMEASURED):
            item.add_marker(pytest.mark.no_cover)


@pytest.fixture(autouse=True)
def _unmeasured_processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a test is not measured, the processes that it starts are not either."""
    if request.node.get_closest_marker("no_cover") is not None:
        for name in [name for name in os.environ if name.startswith("COVERAGE")]:
            monkeypatch.delenv(name)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loop that a test marked `anyio` runs on."""
    name: str = request.param
    return name
