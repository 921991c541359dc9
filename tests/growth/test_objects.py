"""How many objects the garbage collector tracks: one more for every step or every body is a regression.

Counted and not timed. Before this was counted, the collector took a fifth of all time with a thousand workflows.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable.backends.base import Batch
from tests.growth.counted import Counted, ten, waiter

MANY = 300


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Counted]:
    """A coordinator that has created all its lasting objects, and a stopped collector."""
    counted = Counted(tmp_path / "store.db")
    counted.open()
    counted.start([waiter(), ten(0)], "first-")
    counted.answer()
    gc.collect()
    gc.disable()
    yield counted
    gc.enable()
    counted.close()


def test_a_body_that_waits_is_few_objects(counted: Counted) -> None:
    """A workflow in memory is its record, session, body and wait; empty containers are not kept for it."""
    before = _objects()
    counted.start((waiter() for _ in range(MANY)), "many-")
    gc.collect()
    each = (_objects() - before) / MANY
    # A handful of objects more or less do not belong to these workflows.
    assert round(each) <= 15


def test_a_step_adds_few_objects(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step adds its entry and the next activity until its batch is committed; the answer is gone by then."""
    counted.start((ten(number) for number in range(MANY)), "many-")
    counted.answer()
    added: list[float] = []
    commit = counted.backend.commit

    def counting_commit(batch: Batch) -> None:
        # The count of the youngest generation: allocated less freed.
        added.append((gc.get_count()[0] - before) / len(batch.history))
        commit(batch)

    monkeypatch.setattr(counted.backend, "commit", counting_commit)
    gc.collect()
    before = gc.get_count()[0]
    counted.answer()
    assert len(added) == 1
    assert added[0] < 1.5


def _objects() -> int:
    """Compares numbers and not objects: a failure would print them all."""
    return len(gc.get_objects())
