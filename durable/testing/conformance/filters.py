"""Checks of a store: the filters of workflows, alone and combined, in both orders and page by page.

A row that a filter misses is a workflow that is never recovered, or never seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from durable.backends.base import Workflows
from durable.model.records import WorkflowStatus
from durable.testing.conformance.kit import ALL, BackendFactory, Check, Store, by_key, keys, same, workflow


def _varied(store: Store) -> None:
    running, parked = WorkflowStatus.RUNNING, WorkflowStatus.PARKED
    suspended, failed = WorkflowStatus.SUSPENDED, WorkflowStatus.FAILED
    store.save(
        workflows_new=by_key(
            workflow(1, status=running, tags=("red",), created_at=10),
            workflow(2, status=parked, name="refund", created_at=20),
            workflow(3, status=suspended, tags=("red", "blue", "red"), created_at=30),
            workflow(4, status=failed, created_at=40, finished_at=100),
            workflow(5, status=running, name="refund", tags=("blue",), created_at=50),
            workflow(6, status=failed, name="refund", tags=("red",), created_at=60, finished_at=0),
        )
    )


_FILTERS: tuple[tuple[Workflows, list[int]], ...] = (
    (Workflows(limit=ALL), [1, 2, 3, 4, 5, 6]),
    (Workflows(statuses=(WorkflowStatus.RUNNING,), limit=ALL), [1, 5]),
    (Workflows(statuses=(WorkflowStatus.RUNNING, WorkflowStatus.PARKED), limit=ALL), [1, 2, 5]),
    (Workflows(statuses=(WorkflowStatus.FAILED, WorkflowStatus.RUNNING), limit=ALL), [1, 4, 5, 6]),
    (Workflows(statuses=(WorkflowStatus.RUNNING, WorkflowStatus.RUNNING), limit=ALL), [1, 5]),
    (Workflows(statuses=(WorkflowStatus.CANCELLED,), limit=ALL), []),
    (Workflows(name="refund", limit=ALL), [2, 5, 6]),
    (Workflows(name="REFUND", limit=ALL), []),
    (Workflows(name="%", limit=ALL), []),
    (Workflows(tag="red", limit=ALL), [1, 3, 6]),
    (Workflows(tag="re", limit=ALL), []),
    (Workflows(created_since=30, limit=ALL), [3, 4, 5, 6]),
    (Workflows(created_until=30, limit=ALL), [1, 2, 3]),
    (Workflows(created_since=20, created_until=20, limit=ALL), [2]),
    (Workflows(finished_before=100, limit=ALL), [6]),
    (Workflows(finished_before=101, limit=ALL), [4, 6]),
    (Workflows(statuses=(WorkflowStatus.RUNNING, WorkflowStatus.PARKED), name="refund", tag="blue", limit=ALL), [5]),
    (Workflows(statuses=(WorkflowStatus.PARKED,), as_shown=True, limit=ALL), [2]),
    (Workflows(statuses=(WorkflowStatus.FAILED, WorkflowStatus.PARKED), as_shown=True, limit=ALL), [2, 4, 6]),
    (Workflows(statuses=(WorkflowStatus.FAILED,), tag="red", created_since=60, finished_before=1, limit=ALL), [6]),
)


# Keys, ids and parents. The ids begin alike: with the letters before a gap in Unicode, after it, and at its end.
_RELATED = (
    (1, "a", None),
    (2, "a\ud7ff", 1),
    (3, "a\ud7ff/x", 2),
    (4, "a\ue000", 1),
    (5, "a\U0010ffff!", None),
    (6, "b", 1),
    (7, "A*", 6),
    (8, "\U0010ffff", 6),
)
_NARROW: tuple[tuple[Workflows, list[int]], ...] = (
    (Workflows(id_prefix="a", limit=ALL), [1, 2, 3, 4, 5]),
    (Workflows(id_prefix="a\ud7ff", limit=ALL), [2, 3]),
    (Workflows(id_prefix="a\U0010ffff", limit=ALL), [5]),
    (Workflows(id_prefix="\U0010ffff", limit=ALL), [8]),
    (Workflows(id_prefix="A*", limit=ALL), [7]),
    (Workflows(id_prefix="%", limit=ALL), []),
    (Workflows(parent="a", limit=ALL), [2, 4, 6]),
    (Workflows(parent="b", limit=ALL), [7, 8]),
    (Workflows(parent="nobody", limit=ALL), []),
    (Workflows(parent="a", id_prefix="a", limit=ALL), [2, 4]),
    (Workflows(parent="a", statuses=(WorkflowStatus.RUNNING,), limit=ALL), [2, 6]),
    (Workflows(parent="a", statuses=(WorkflowStatus.RUNNING, WorkflowStatus.FAILED), limit=ALL), [2, 4, 6]),
    (Workflows(id_prefix="a", statuses=(WorkflowStatus.FAILED,), name="order", tag="red", limit=ALL), [4]),
    (Workflows(id_prefix="a", created_since=1002, created_until=1004, limit=ALL), [2, 3, 4]),
)


def _related(store: Store) -> None:
    statuses = {4: WorkflowStatus.FAILED}
    rows = (
        workflow(key, id=id, parent_key=parent, status=statuses.get(key, WorkflowStatus.RUNNING), tags=("red",))
        for key, id, parent in _RELATED
    )
    store.save(workflows_new=by_key(*rows))


def check_workflow_filters(make: BackendFactory) -> None:
    """Each filter of `Workflows` finds its rows, alone and combined, in both orders; `count` agrees with `find`.

    Pages follow each other without a gap or a repeat.
    """
    with Store(make) as store:
        _varied(store)
        _answers(store, _FILTERS)


def check_narrow_filters(make: BackendFactory) -> None:
    """The same for the filters by the beginning of an id and by the parent."""
    with Store(make) as store:
        _related(store)
        _answers(store, _NARROW)


def _answers(store: Store, filters: Sequence[tuple[Workflows, list[int]]]) -> None:
    for query, expected in filters:
        newest_first = attrs.evolve(query, newest_first=True)
        same(keys(store.backend.find(query)), expected)
        same(keys(store.backend.find(newest_first)), expected[::-1])
        same(store.backend.count(attrs.evolve(query, limit=1, after=5)), len(expected))
        same(_paged(store, query), expected)
        same(_paged(store, newest_first), expected[::-1])


def _paged(store: Store, query: Workflows) -> list[int]:
    """The keys of all pages of two rows."""
    seen: list[int] = []
    page = attrs.evolve(query, limit=2)
    while page_keys := keys(store.backend.find(page)):
        seen += page_keys
        page = attrs.evolve(page, after=page_keys[-1])
    return seen


CHECKS: tuple[Check, ...] = (check_workflow_filters, check_narrow_filters)
