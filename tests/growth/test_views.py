"""The cost of queries: a description does not read the history, a list takes two queries however long it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from durable.backends.base import Workflows
from durable.engine.operations import DescribeWorkflow, ListWorkflows
from tests.growth.counted import Counted, one_step, ten, waiter


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Counted]:
    """A coordinator on a file."""
    opened = Counted(tmp_path / "store.db")
    opened.open()
    yield opened
    opened.close()


def test_describing_a_body_in_memory_reads_no_history(counted: Counted) -> None:
    """The store counts the entries without reading them, while the workflow runs and after its end."""
    counted.start([ten(1)])
    for _ in range(9):
        counted.answer()
    for _ in range(2):
        asked = counted.do(DescribeWorkflow("w0"))
        assert (asked.replays, asked.commits, asked.rows) == (0, 0, 0)
        assert asked.statements["SELECT history"] == 1
        counted.answer()


def test_a_list_asks_twice_however_long_it_is(counted: Counted) -> None:
    """Parents and progress of a whole page take one more query, and an empty page takes none."""
    counted.start([waiter() for _ in range(100)])
    counted.start([one_step(1)], "other")
    for limit, statements in ((1, 2), (100, 2)):
        assert counted.do(ListWorkflows(Workflows(limit=limit))).total == statements
    assert counted.do(ListWorkflows(Workflows(name="nobody", limit=9))).total == 1
