"""Every store does what the protocol says: all conformance checks, over each backend in the box."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest

from durable.backends.memory import MemoryBackend, MemoryStore
from durable.backends.sqlite import SqliteBackend
from durable.testing.conformance import CHECKS, FENCING_CHECKS, SHARD_CHECKS, BackendFactory, Check, ShardFactory
from durable.testing.faults import FaultyBackend


@pytest.fixture(params=["memory", "sqlite", "faulty memory"])
def make(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> BackendFactory:
    store = MemoryStore()
    factories: dict[str, BackendFactory] = {
        "memory": lambda: MemoryBackend(store),
        "sqlite": lambda: SqliteBackend(tmp_path / "store.db", synchronous="NORMAL"),
        "faulty memory": lambda: FaultyBackend(MemoryBackend(store)),
    }
    return factories[request.param]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_store_conforms(check: Check, make: BackendFactory) -> None:
    """The store fulfils this claim of the protocol; see the docstring of the check."""
    check(make)


@pytest.mark.parametrize("check", FENCING_CHECKS, ids=lambda check: check.__name__)
def test_memory_fences(check: Check) -> None:
    """Two handles on one store in memory fence each other as two machines would."""
    store = MemoryStore()
    check(lambda: MemoryBackend(store))


@pytest.mark.parametrize("check", SHARD_CHECKS, ids=lambda check: check.__name__)
def test_memory_has_shards(check: Callable[[ShardFactory], None]) -> None:
    """The store in memory keeps its shards apart and delivers letters between them."""
    stores = MemoryStore.sharded(3)
    check(lambda shard: MemoryBackend(stores[shard]))


def test_every_check_says_what_it_claims() -> None:
    """A check is listed once and has a claim."""
    assert len(set(CHECKS)) == len(CHECKS)
    assert all(check.__doc__ for check in (*CHECKS, *FENCING_CHECKS, *SHARD_CHECKS))
