"""What every test gets: both event loops, and one way for hypothesis to behave."""

from __future__ import annotations

import pytest
from hypothesis import settings

# Examples start engines and databases; how long one takes on a busy machine says nothing about its correctness.
settings.register_profile("durable", deadline=None)
settings.load_profile("durable")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loop that a test marked `anyio` runs on."""
    name: str = request.param
    return name
