"""What every test gets: both event loops, settings for hypothesis, and coverage where it is useful."""

from __future__ import annotations

import pytest
from hypothesis import settings

# Examples start engines and databases. How long one takes on a busy machine says nothing about its correctness.
settings.register_profile("durable", deadline=None)
settings.load_profile("durable")

# Other tests reach the same code, and measuring makes these two to three times slower: thousands of engines, and
# processes that are killed before they can report their coverage.
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


# Folders and files whose tests take longest. They run first, so that no worker is left with one of them at the end.
SLOW = (
    "tests/simulation/test_seeds.py",
    "tests/processes/",
    "tests/exhaustive/",
    "tests/statemachine/",
    "tests/planted/",
    "tests/scenarios/test_damaged_rows.py",
    "tests/fuzz/",
    "tests/power/",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run slow tests first, and mark what is slow and reaches nothing new: `make test` does not measure it.

    It runs in a second command, not beside the measured tests: switching coverage off and on again in one process harms
    threads that live on.

    A test that runs on both loops is measured on asyncio alone. On trio it reaches the same lines of durable, except
    for a few of `engine/host` that call trio.
    """
    for item in items:
        if item.nodeid.startswith(UNMEASURED) or _loop_of(item) == "trio":
            item.add_marker(pytest.mark.unmeasured)
    items.sort(key=lambda item: not item.nodeid.startswith(SLOW))


def _loop_of(item: pytest.Item) -> str | None:
    """The event loop that the fixture `anyio_backend` chooses for a test; None without the fixture."""
    call = getattr(item, "callspec", None)
    return None if call is None else call.params.get("anyio_backend")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loop that a test marked `anyio` runs on."""
    name: str = request.param
    return name
