"""What a store keeps about workflows: rows, history and deadlines.

A history that comes back in another order, or with an entry missing, makes the replay of its workflow diverge. So these
checks compare whole records, and use awkward text in every field that takes text.
"""

from __future__ import annotations

import attrs

from durable.backends.base import (
    AttachedTo,
    EventsFor,
    Mailbox,
    PendingEvents,
    TheseWorkflows,
    Timers,
    WaitsFor,
    WaitsOf,
    Workflows,
)
from durable.errors import InvariantViolated
from durable.model.records import (
    CancelCause,
    EntryKind,
    EntryStatus,
    HistoryEntry,
    OnParentClose,
    ParkReason,
    WorkflowRecord,
    WorkflowStatus,
)
from durable.model.timers import OF_WORKFLOW, Timer
from durable.testing.conformance.kit import (
    ALL,
    BackendFactory,
    Check,
    Store,
    by_key,
    by_place,
    by_serial,
    entry,
    event,
    keys,
    refuses,
    same,
    wait,
    workflow,
)

_FULL = WorkflowRecord(
    key=2**62,
    id="it's; drop table--\n\x1b[0m ☃ ünï",
    name="order",
    version=3,
    status=WorkflowStatus.PARKED,
    input='{"a": [1, "☃"]}',
    start_digest="0a1b",
    created_at=1,
    start_at=2,
    wake_at=3,
    finished_at=4,
    result='"done"',
    error='{"type": "ValueError"}',
    parent_key=5,
    parent_place="1:4.left%2E_1~.u.0",
    on_parent_close=OnParentClose.CANCEL,
    depth=6,
    round=7,
    tags=("red", 'qu"ote', "☃"),
    cancel_requested=True,
    cancel_pending=True,
    position_format=1,
    cancel_reason="enough",
    cancel_cause=CancelCause.PARENT_ENDED,
    crashes=8,
    park_reason=ParkReason.DIVERGED,
    park_detail="at 4",
    cursors=(("paid", "", 9), ("paid", "k☃", 10)),
    trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 vendor=1",
)


def check_workflow_round_trip(make: BackendFactory) -> None:
    """A workflow comes back with every field as it was, by id and by key."""
    with Store(make) as store:
        plain = workflow(1)
        store.save(workflows_new=by_key(_FULL, plain))
        for record in (_FULL, plain):
            same(store.backend.workflow(record.id), record)
            same(store.backend.workflow_by_key(record.key), record)
        same(store.backend.find(Workflows(limit=ALL)), [plain, _FULL])


def check_these_workflows(make: BackendFactory) -> None:
    """`TheseWorkflows` returns exactly the workflows with the given ids or keys, whatever characters are in an id."""
    odd = ["it's", 'a "quoted" one', "[]", "naïve 🎈", "null", "1", " "]
    with Store(make) as store:
        records = by_key(_FULL, *(workflow(100 + number, id=id) for number, id in enumerate(odd)))
        store.save(workflows_new=records)
        ids = (*odd, *(f"free {id}" for id in odd), "NULL", "2", odd[0])
        same(_rows(store, TheseWorkflows(ids=ids)), {key: row for key, row in records.items() if row is not _FULL})
        same(_rows(store, TheseWorkflows(keys=(101, 99, _FULL.key))), {key: records[key] for key in (101, _FULL.key)})
        by_both = TheseWorkflows(ids=(odd[0], "101"), keys=(100, 102))
        same(_rows(store, by_both), {key: records[key] for key in (100, 102)})
        same(store.backend.find(TheseWorkflows()), [])
        store.save(workflows_purged={100})
        same(_rows(store, TheseWorkflows(ids=(odd[0],), keys=(100,))), {})


def _rows(store: Store, query: TheseWorkflows) -> dict[int, WorkflowRecord]:
    return {record.key: record for record in store.backend.find(query)}


def check_attached_to(make: BackendFactory) -> None:
    """`AttachedTo` says for each key which of the three tables have rows for it, also for a key of no workflow."""
    with Store(make) as store:
        store.save(
            workflows_new=by_key(*(workflow(key) for key in (101, 102, 103, 104))),
            history=[(101, entry(1)), (104, entry(1))],
            waits_put=by_place(wait(102, 1), wait(104, 2)),
            events_put=by_serial(event(3, target=103), event(4, target=104), event(5)),
        )
        expected = {
            (101, True, False, False),
            (102, False, True, False),
            (103, False, False, True),
            (104, True, True, True),
            (999, False, False, False),
        }
        same(set(store.backend.find(AttachedTo((101, 102, 103, 104, 999)))), expected)
        same(store.backend.find(AttachedTo(())), [])
        store.save(workflows_purged={104})
        same(store.backend.find(AttachedTo((104,))), [(104, False, False, False)])


def check_every_enum_value(make: BackendFactory) -> None:
    """Every status, park reason, entry kind and outcome can be stored."""
    with Store(make) as store:
        reasons = [*ParkReason, None, None]
        records = [
            workflow(key, status=status, park_reason=reason)
            for key, (status, reason) in enumerate(zip(WorkflowStatus, reasons, strict=True), start=1)
        ]
        pairs = [(kind, status) for kind in EntryKind for status in EntryStatus]
        entries = [
            HistoryEntry(seq, "0", kind, "x", status, "null", 5, seq or None)
            for seq, (kind, status) in enumerate(pairs)
        ]
        store.save(workflows_new=by_key(*records), history=[(1, item) for item in entries])
        same(store.backend.find(Workflows(limit=ALL)), records)
        same(store.backend.history(1), entries)


def check_update(make: BackendFactory) -> None:
    """A changed workflow replaces the stored one, including fields that became None; other rows stay as they were."""
    with Store(make) as store:
        first = attrs.evolve(_FULL, key=1)
        other = workflow(2)
        store.save(workflows_new=by_key(first, other))
        changed = attrs.evolve(
            workflow(1),
            **{name: getattr(first, name) for name in ("id", "created_at", "tags", "trace")},
            **{name: getattr(first, name) for name in ("parent_key", "parent_place", "on_parent_close")},
            **{name: getattr(first, name) for name in ("name", "version", "input", "start_digest")},
            **{name: getattr(first, name) for name in ("start_at", "depth", "round", "position_format")},
        )
        store.save(workflows_changed=by_key(changed))
        same(store.backend.workflow_by_key(1), changed)
        store.save(workflows_changed=by_key(first))
        same(store.backend.workflow_by_key(1), first)
        same(store.backend.workflow_by_key(2), other)


def check_continued_workflow(make: BackendFactory) -> None:
    """A workflow that continues as another may change the fields it was started with, and its history starts over."""
    with Store(make) as store:
        store.save(
            workflows_new=by_key(workflow(1), workflow(2)), history=[(1, entry(0)), (1, entry(1)), (2, entry(0))]
        )
        continued = workflow(1, name="refund", version=2, input="[2]", start_digest="d", start_at=7, depth=3, round=1)
        fresh = entry(0, outcome="9")
        store.save(workflows_changed=by_key(continued), restarted={1}, history=[(1, fresh)])
        same(store.backend.workflow("workflow-1"), continued)
        same(store.backend.history(1), [fresh])
        same(store.backend.history(2), [entry(0)])
        same(keys(store.backend.find(Workflows(name="refund", limit=ALL))), [1])
        same(keys(store.backend.find(Workflows(name="order", limit=ALL))), [2])


def check_ids_are_unique(make: BackendFactory) -> None:
    """A stored id or key cannot be stored again. Ids are case-sensitive, and a purged one can be used again."""
    with Store(make) as store:
        store.commit(workflows_new=by_key(workflow(1, id="a"), workflow(2, id="A")))
        refuses(InvariantViolated, lambda: store.commit(workflows_new=by_key(workflow(3, id="a"))))
        refuses(InvariantViolated, lambda: store.commit(workflows_new=by_key(workflow(1, id="b"))))
        twins = by_key(workflow(4, id="c"), workflow(5, id="c"))
        refuses(InvariantViolated, lambda: store.commit(workflows_new=twins))
        store.save(workflows_purged={1}, workflows_new=by_key(workflow(3, id="a")))
        same(
            [store.backend.workflow(id) for id in ("a", "A", "b", "c")],
            [workflow(3, id="a"), workflow(2, id="A"), None, None],
        )


def check_history_order(make: BackendFactory) -> None:
    """A history comes back in the order of `seq`, however many commits it came from."""
    with Store(make) as store:
        store.commit(history=[(1, entry(2)), (2, entry(0)), (1, entry(0))])
        store.save(history=[(1, entry(10)), (1, entry(1)), (1, entry(9))])
        same([item.seq for item in store.backend.history(1)], [0, 1, 2, 9, 10])
        same(store.backend.history(2), [entry(0)])
        store.save(restarted={1})
        same(store.backend.history(1), [])


def check_trimmed_history(make: BackendFactory) -> None:
    """Trimmed entries are gone. The others keep their numbers and order, and no other workflow is affected."""
    with Store(make) as store:
        both = [(key, entry(seq)) for seq in range(1, 7) for key in (1, 2)]
        store.save(workflows_new=by_key(workflow(1), workflow(2)), history=both)
        store.save(history_trimmed={(1, 5), (1, 2), (1, 3)})
        same(store.backend.history(1), [entry(seq) for seq in (1, 4, 6)])
        same(store.backend.history(2), [entry(seq) for seq in range(1, 7)])
        store.save(history=[(1, entry(7))], history_trimmed={(1, 1), (1, 4), (1, 6)})
        same(store.backend.history(1), [entry(7)])
        store.save(history_trimmed={(1, 7), *((2, seq) for seq in range(1, 7))})
        same((store.backend.history(1), store.backend.history(2)), ([], []))


def check_trimmed_in_its_own_commit(make: BackendFactory) -> None:
    """An entry that one commit both appends and trims is not stored; its neighbours are."""
    with Store(make) as store:
        store.save(
            workflows_new=by_key(workflow(1)),
            history=[(1, entry(seq)) for seq in range(1, 2001)],
            history_trimmed={(1, seq) for seq in range(2, 2000)},
        )
        same(store.backend.history(1), [entry(1), entry(2000)])


def check_trim_of_nothing(make: BackendFactory) -> None:
    """Trimming an entry that is absent, trimmed before, or purged anyway is harmless; a refused batch trims nothing."""
    with Store(make) as store:
        store.save(workflows_new=by_key(workflow(1), workflow(2)), history=[(1, entry(1)), (2, entry(1))])
        store.save(history_trimmed={(1, 9), (7, 1)})
        taken = workflow(3, id="workflow-1")
        refused = {"workflows_new": by_key(taken), "history_trimmed": {(1, 1)}}
        refuses(InvariantViolated, lambda: store.commit(**refused))
        same((store.backend.history(1), store.backend.history(7)), ([entry(1)], []))
        store.save(restarted={1}, workflows_purged={2}, history_trimmed={(1, 1), (2, 1)})
        same((store.backend.history(1), store.backend.history(2)), ([], []))


def _timers(*timers: tuple[int, int]) -> list[Timer]:
    return [(at, OF_WORKFLOW, key) for at, key in timers]


def check_timers(make: BackendFactory) -> None:
    """Timers come by time, then by key, at most `limit` of them, and follow every change of `wake_at`."""
    with Store(make) as store:
        times = {1: 50, 2: 10, 3: None, 4: 10, 5: 0}
        store.save(workflows_new=by_key(*(workflow(key, wake_at=at) for key, at in times.items())))
        same(store.backend.find(Timers(limit=ALL)), _timers((0, 5), (10, 2), (10, 4), (50, 1)))
        same(store.backend.find(Timers(limit=2)), _timers((0, 5), (10, 2)))
        same(store.backend.find(Timers(after=(10, OF_WORKFLOW, 2), limit=ALL)), _timers((10, 4), (50, 1)))
        changed = by_key(workflow(5), workflow(3, wake_at=20), workflow(1, wake_at=5))
        store.save(workflows_changed=changed, workflows_purged={2})
        same(store.backend.find(Timers(limit=ALL)), _timers((5, 1), (10, 4), (20, 3)))


def check_purge(make: BackendFactory) -> None:
    """Purging a workflow removes its history, waits, mailbox, tags and timer, and nothing of any other."""
    with Store(make) as store:
        records = [workflow(key, tags=("red",), wake_at=key) for key in (1, 2)]
        store.save(
            workflows_new=by_key(*records),
            history=[(1, entry(0)), (2, entry(0))],
            waits_put=by_place(wait(1, 3), wait(1, 4, "1"), wait(2, 5)),
            events_put=by_serial(event(6, target=1), event(7, target=2), event(8), event(9, unstarted="later")),
        )
        store.save(workflows_purged={1})
        backend = store.backend
        same((backend.workflow("workflow-1"), backend.workflow_by_key(1), backend.history(1)), (None, None, []))
        same((backend.find(WaitsOf(workflow_key=1)), backend.find(Mailbox(target=1, limit=ALL))), ([], []))
        same(backend.find(Workflows(tag="red", limit=ALL)), [records[1]])
        same(backend.find(Timers(limit=ALL)), _timers((2, 2)))
        same(backend.history(2), [entry(0)])
        same(backend.find(WaitsFor(name="paid", event_key="", limit=ALL)), [wait(2, 5)])
        same(backend.find(EventsFor(name="paid", event_key="", target=2, limit=ALL)), [event(7, target=2)])
        same(len(backend.find(PendingEvents(name="paid", limit=ALL))), 3)
        store.save(workflows_purged={1, 99})


CHECKS: tuple[Check, ...] = (
    check_workflow_round_trip,
    check_these_workflows,
    check_attached_to,
    check_every_enum_value,
    check_update,
    check_continued_workflow,
    check_ids_are_unique,
    check_history_order,
    check_trimmed_history,
    check_trimmed_in_its_own_commit,
    check_trim_of_nothing,
    check_timers,
    check_purge,
)
