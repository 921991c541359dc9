"""The stores that scenarios run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from durable.backends.memory import MemoryBackend
from tests.scenarios.kit import Store


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store that any number of engines may open, one after the other."""
    return MemoryBackend() if request.param == "memory" else tmp_path / "store.db"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a SQLite store may be made."""
    return tmp_path / "store.db"
