"""What a store keeps of spawned children and of what workflows publish."""

from __future__ import annotations

import attrs

from durable.backends.base import Children, ProgressOf
from durable.records import OnParentClose, Progress, WorkflowRecord, WorkflowStatus
from durable.testing.conformance.kit import BackendFactory, Check, Store, by_key, keys, same, workflow

KEEP, CANCEL = OnParentClose.KEEP, OnParentClose.CANCEL


def _child(key: int, parent: int, close: OnParentClose | None = None) -> WorkflowRecord:
    return workflow(key, parent_key=parent, parent_place=str(key), on_parent_close=close)


def _ended(record: WorkflowRecord) -> WorkflowRecord:
    return attrs.evolve(record, status=WorkflowStatus.SUCCEEDED, finished_at=5000)


def check_every_way_to_close(make: BackendFactory) -> None:
    """How a child was spawned comes back as it was, for every way and for none."""
    with Store(make) as store:
        records = [_child(key, 9, close) for key, close in enumerate((*OnParentClose, None), start=1)]
        store.save(workflows_new=by_key(*records))
        same([store.backend.workflow_by_key(record.key) for record in records], records)


def check_children(make: BackendFactory) -> None:
    """The children of a parent that end with it: those that it awaits or has spawned so, until they have ended."""
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
    """What a workflow has published last replaces what was there, and goes when the workflow is purged."""
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


CHECKS: tuple[Check, ...] = (check_every_way_to_close, check_children, check_progress)
