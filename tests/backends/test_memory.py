"""The additional checks of the store in memory: it refuses what a store of tables would silently not do."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from durable.backends.base import Batch
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.errors import InvariantViolated, StoreFenced
from durable.testing.conformance.kit import by_key, by_place, by_serial, event, wait, workflow

FIXED: list[dict[str, Any]] = [{"id": "other"}, {"created_at": 5}, {"tags": ("new",)}]
BEGUN: list[dict[str, Any]] = [{"name": "refund"}, {"input": "[9]"}, {"start_at": 9}, {"depth": 2}, {"round": 1}]


@pytest.mark.parametrize("change", [*FIXED, *BEGUN])
def test_changes_that_a_batch_must_not_make(change: dict[str, Any]) -> None:
    """A workflow's identity never changes, and its beginning changes only together with its history."""
    backend = MemoryBackend()
    backend.open("a")
    backend.commit(Batch(number=1, workflows_new=by_key(workflow(1))))
    with pytest.raises(InvariantViolated):
        backend.commit(Batch(number=2, workflows_changed=by_key(workflow(1, **change))))
    assert backend.workflow_by_key(1) == workflow(1)


def test_one_object_serves_one_engine_after_another() -> None:
    """An engine that was dropped without a close is superseded by the next one on the same object."""
    backend = MemoryBackend()
    backend.open("a")
    backend.commit(Batch(number=1, workflows_new=by_key(workflow(1))))
    assert backend.open("b").clean is False
    with pytest.raises(StoreFenced):
        backend.commit(Batch(number=2))
    assert backend.workflow("workflow-1") == workflow(1)


def test_nothing_piles_up() -> None:
    """Waits and events that are gone leave no keys behind, because the keys come from users."""
    store = MemoryStore()
    backend = MemoryBackend(store)
    backend.open("a")
    events = by_serial(event(3, event_key="x"), event(4, target=1))
    backend.commit(Batch(number=1, waits_put=by_place(wait(1, 2, event_key="x")), events_put=events))
    backend.commit(Batch(number=2, waits_dropped={(1, "0")}, events_dropped={3, 4}))
    assert not any((store.waits, store.waiting, store.events, store.queues, store.boxes))
    child = workflow(1, parent_key=9)
    backend.commit(Batch(number=3, workflows_new=by_key(child)))
    assert store.tied
    backend.commit(Batch(number=4, workflows_changed=by_key(attrs.evolve(child, finished_at=5000))))
    assert not store.tied
