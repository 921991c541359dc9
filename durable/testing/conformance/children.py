"""What a store keeps about spawned children, and about the progress that workflows publish.

When a workflow ends, the engine asks for the children that must end with it. A child missing from `Children` would run
without a parent; a child listed wrongly would be cancelled.
"""

from __future__ import annotations

import attrs

from durable.backends.base import Background, Backgrounds, ChildIds, Children, HistoryLength, ProgressOf
from durable.model.records import OnParentClose, Progress, WorkflowRecord, WorkflowStatus
from durable.testing.conformance.kit import BackendFactory, Check, Store, by_key, entry, keys, same, workflow

KEEP, CANCEL = OnParentClose.KEEP, OnParentClose.CANCEL


def _child(key: int, parent: int, close: OnParentClose | None = None) -> WorkflowRecord:
    return workflow(key, parent_key=parent, parent_place=str(key), on_parent_close=close)


def _ended(record: WorkflowRecord) -> WorkflowRecord:
    return attrs.evolve(record, status=WorkflowStatus.SUCCEEDED, finished_at=5000)


def check_every_way_to_close(make: BackendFactory) -> None:
    """`on_parent_close` of a child comes back as it was stored, for every value and for None."""
    with Store(make) as store:
        records = [_child(key, 9, close) for key, close in enumerate((*OnParentClose, None), start=1)]
        store.save(workflows_new=by_key(*records))
        same([store.backend.workflow_by_key(record.key) for record in records], records)


def check_children(make: BackendFactory) -> None:
    """`Children` finds those that end with their parent: awaited ones and those to cancel, until they have ended."""
    with Store(make) as store:
        awaited, kept, tied = _child(2, 1), _child(3, 1, KEEP), _child(4, 1, CANCEL)
        store.save(workflows_new=by_key(workflow(1), tied, kept, awaited, _child(5, 2), _ended(_child(6, 1))))
        same(list(store.backend.find(Children(1))), [awaited, tied])
        same(keys(store.backend.find(Children(2))), [5])
        same(keys(store.backend.find(Children(3))), [])
        parked = attrs.evolve(tied, status=WorkflowStatus.PARKED, wake_at=None)
        store.save(workflows_changed=by_key(_ended(awaited), parked))
        same(list(store.backend.find(Children(1))), [parked])
        store.save(workflows_purged={4}, workflows_changed=by_key(_ended(_child(5, 2))))
        same([keys(store.backend.find(Children(parent))) for parent in (1, 2)], [[], []])


def check_progress(make: BackendFactory) -> None:
    """Progress replaces what the workflow published before, and is removed when the workflow is purged."""
    with Store(make) as store:
        first = Progress(workflow_key=1, round=0, seq=0, value='"☃"', at=5)
        other = Progress(workflow_key=2, round=3, seq=2**62, value="null", at=6)
        store.save(workflows_new=by_key(workflow(1), workflow(2)), progress_put={1: first, 2: other})
        same([list(store.backend.find(ProgressOf(key))) for key in (1, 2, 3)], [[first], [other], []])
        later = attrs.evolve(first, round=1, seq=7, value="[1]", at=4)
        store.save(progress_put={1: later})
        same([list(store.backend.find(ProgressOf(key))) for key in (1, 2)], [[later], [other]])
        store.save(workflows_purged={1})
        same([list(store.backend.find(ProgressOf(key))) for key in (1, 2)], [[], [other]])


def check_backgrounds(make: BackendFactory) -> None:
    """`Backgrounds` gives the id of the parent and the progress of each workflow in the query."""
    with Store(make) as store:
        parent, child, stray = workflow(1), _child(2, 1), _child(3, 77)
        published = Progress(workflow_key=2, round=0, seq=1, value="[1]", at=5)
        store.save(workflows_new=by_key(parent, child, stray), progress_put={2: published})
        rows = store.backend.find(Backgrounds((3, 2, 1, 99)))
        expected = [Background(1, None, None), Background(2, parent.id, "[1]"), Background(3, None, None)]
        same(sorted(rows, key=lambda row: row.workflow_key), expected)
        same(list(store.backend.find(Backgrounds(()))), [])


def check_child_ids(make: BackendFactory) -> None:
    """`ChildIds` lists all children of a workflow, newest first, including those that have ended or are kept."""
    with Store(make) as store:
        children = [_child(2, 1), _child(3, 1, KEEP), _ended(_child(5, 1))]
        store.save(workflows_new=by_key(workflow(1), *children, _child(4, 2)))
        newest_first = [child.id for child in reversed(children)]
        same(list(store.backend.find(ChildIds(1, 9))), newest_first)
        same(list(store.backend.find(ChildIds(1, 2))), newest_first[:2])
        same(list(store.backend.find(ChildIds(7, 9))), [])


def check_history_length(make: BackendFactory) -> None:
    """`HistoryLength` counts the entries that are left after appending, trimming and clearing."""
    with Store(make) as store:
        store.save(workflows_new=by_key(workflow(1)), history=[(1, entry(seq)) for seq in (1, 2, 3)])
        same([store.backend.count(HistoryLength(key)) for key in (1, 2)], [3, 0])
        store.save(history_trimmed={(1, 1)})
        same(store.backend.count(HistoryLength(1)), 2)
        store.save(restarted={1}, workflows_changed=by_key(attrs.evolve(workflow(1), round=1)))
        same(store.backend.count(HistoryLength(1)), 0)


CHECKS: tuple[Check, ...] = (
    check_every_way_to_close,
    check_children,
    check_progress,
    check_backgrounds,
    check_child_ids,
    check_history_length,
)
