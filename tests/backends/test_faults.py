"""The store that fails on purpose fails as its plan says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from durable.backends.base import Batch, PendingCount, Workflows
from durable.backends.memory import MemoryBackend
from durable.errors import StorageUnavailable
from durable.testing.faults import Fault, FaultyBackend, SimCrash


@pytest.mark.parametrize(
    ("fault", "error", "stored"),
    [
        (Fault.FAIL_BEFORE, StorageUnavailable, 1),
        (Fault.FAIL_AFTER, StorageUnavailable, 2),
        (Fault.CRASH_BEFORE, SimCrash, 1),
        (Fault.CRASH_AFTER, SimCrash, 2),
    ],
)
def test_commit_faults(fault: Fault, error: type[BaseException], stored: int) -> None:
    """The planned commit fails or crashes, before or after it is stored; the ones around it succeed."""
    backend = FaultyBackend(MemoryBackend(), {2: fault})
    backend.open("a")
    backend.commit(Batch(number=1))
    with pytest.raises(error):
        backend.commit(Batch(number=2))
    assert backend.last_batch() == stored
    backend.commit(Batch(number=stored + 1))
    assert backend.commits == 3


ACTIONS: tuple[Callable[[FaultyBackend], object], ...] = (
    lambda backend: backend.open("a"),
    lambda backend: backend.commit(Batch(number=1)),
    lambda backend: backend.last_batch(),
    lambda backend: backend.workflow("a"),
    lambda backend: backend.workflow_by_key(1),
    lambda backend: backend.history(1),
    lambda backend: backend.find(Workflows(limit=1)),
    lambda backend: backend.count(PendingCount(name=None)),
)


@pytest.mark.parametrize("failing", range(2, len(ACTIONS) + 1))
def test_every_call_can_fail(failing: int) -> None:
    """The n-th call fails, whichever method it is, and does not reach the store; the others succeed."""
    backend = FaultyBackend(MemoryBackend(), fail_calls={failing})
    for number, action in enumerate(ACTIONS, start=1):
        if number == failing:
            with pytest.raises(StorageUnavailable, match=f"call {failing} fails"):
                action(backend)
        else:
            action(backend)
    assert backend.last_batch() == (0 if failing == 2 else 1)
    backend.close()


def test_open_can_fail() -> None:
    """The first call of all can fail, and a repeat of it succeeds."""
    backend = FaultyBackend(MemoryBackend(), fail_calls={1})
    with pytest.raises(StorageUnavailable):
        backend.open("a")
    backend.open("a")
