"""The table of wait kinds: every operation that waits has a row, and the rows are right about children."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from durable.model.records import EntryKind, EntryStatus, HistoryEntry
from durable.runner.children import spawn
from durable.runner.definitions import Durable, workflow
from durable.runner.kinds import KINDS
from durable.runner.ops import Leaf, Op
from tests.runner.builders import a_session, activity_error, seconds


def _operations(base: type[Leaf[Any]]) -> Iterator[type[Leaf[Any]]]:
    """All operations of the package that wait, without base classes."""
    for operation in base.__subclasses__():
        yield from _operations(operation)
        if operation.__module__.startswith("durable."):
            yield operation


def test_every_operation_that_waits_has_a_row() -> None:
    """Every operation that waits has its own row, and every row has an operation."""
    kinds = [operation.kind for operation in _operations(Leaf) if "kind" in vars(operation)]
    assert sorted(kind.value for kind in kinds) == sorted(kind.value for kind in KINDS)


@workflow(name="runner.kinds.child")
def child() -> Durable[int]:
    """A child that no engine runs."""
    yield from ()
    return 1


CALLED, SPAWNED = EntryKind.CHILD, EntryKind.SPAWN
FAILED = activity_error(1, "0", "child", ValueError("no")).outcome


@pytest.mark.parametrize(
    ("kind", "status", "outcome", "has_spawned"),
    [
        (CALLED, EntryStatus.OK, "1", False),
        (CALLED, EntryStatus.ERROR, FAILED, True),
        (SPAWNED, EntryStatus.OK, '"c"', True),
        (SPAWNED, EntryStatus.ERROR, FAILED, False),
    ],
)
def test_a_child_that_may_outlive_its_wait_is_remembered(
    kind: EntryKind, status: EntryStatus, outcome: str, has_spawned: bool
) -> None:
    """A spawned child keeps running and a failed one may be retried; one that ended well, or never began, is over."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        operation: Op[Any] = child() if kind is CALLED else spawn(child())
        return (yield from operation)

    session = a_session(body)
    session.start()
    session.feed(HistoryEntry(1, "0", kind, child.name, status, outcome, seconds(1)))
    assert session.has_spawned is has_spawned
