"""What a commit is: all or nothing, numbered, durable, and possible only for the owner of the store.

The engine releases nothing before a commit, and after an unknown outcome it decides by `last_batch` whether to repeat.
So half a batch, a number that is wrong, or a second writer would each make it lose or repeat steps.
"""

from __future__ import annotations

from durable.backends.base import (
    Batch,
    Children,
    Letters,
    Mailbox,
    OpenPauses,
    PendingCount,
    PendingEvents,
    ProgressOf,
    Query,
    Schedules,
    Sent,
    StaleEvents,
    Taken,
    Timers,
    WaitsFor,
    WaitsOf,
    Workflows,
)
from durable.errors import InvariantViolated, StoreFenced
from durable.model.dead_letters import DeadLetter
from durable.model.records import Progress, Question, SentEvent, TakenBroadcast
from durable.model.schedule import Job, Plan, ScheduleRecord
from durable.model.timers import ScheduleKey
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
    refuses,
    same,
    wait,
    workflow,
)


def check_empty_store(make: BackendFactory) -> None:
    """A new store is clean, empty, and has given out no serial."""
    with Store(make) as store:
        same((store.opened.serial, store.opened.clean), (0, True))
        same(store.backend.last_batch(), 0)
        same(store.backend.workflow("nobody"), None)
        same(store.backend.workflow_by_key(1), None)
        same(store.backend.history(1), [])
        same([list(store.backend.find(query)) for query in _EVERYTHING], [[] for _ in _EVERYTHING])
        same(store.backend.count(Workflows(limit=ALL)), 0)
        same(store.backend.count(PendingCount(name="paid")), 0)
        same(store.backend.count(PendingCount(name=None)), 0)


_EVERYTHING: tuple[Query[object], ...] = (
    Workflows(limit=ALL),
    Timers(limit=ALL),
    WaitsOf(workflow_key=1),
    WaitsFor(name="paid", event_key="", limit=ALL),
    OpenPauses(limit=ALL),
    Mailbox(target=1, limit=ALL),
    Mailbox(unstarted="later", limit=ALL),
    Mailbox(limit=ALL),
    StaleEvents(expired_at=10**9, since_before=10**9, limit=ALL),
    PendingEvents(limit=ALL),
    Taken(workflow_key=1),
    Letters(limit=ALL),
    Sent(before=10**9, limit=ALL),
    Children(9),
    ProgressOf(1),
    Schedules(limit=ALL),
)


_JOB = Job(plan=Plan(cron="@daily"), workflow="order", input="{}")
_SCHEDULE = ScheduleRecord(key=ScheduleKey(-7), name="s", job=_JOB, created_at=1, anchor=1, done_until=1, wake_at=8)


def _one_of_each(number: int) -> Batch:
    return Batch(
        number=number,
        serial=50,
        workflows_new=by_key(workflow(1, wake_at=7, tags=("red",), parent_key=9)),
        history=[(1, entry(0))],
        waits_put=by_place(wait(1, 2), wait(1, 7, "1", name="", question=Question('"sure?"', "bool"))),
        events_put=by_serial(event(3), event(4, target=1), event(5, unstarted="later")),
        letters_put={6: DeadLetter(id=6, name="paid", workflow_id="w", payload_json="1", sent_at_us=1, died_at_us=2)},
        taken_put={(1, "paid", ""): TakenBroadcast(workflow_key=1, name="paid", event_key="", serial=3)},
        sent_put={"e": SentEvent(event_id="e", digest="d", reply="r", at=1)},
        progress_put={1: Progress(workflow_key=1, round=0, seq=0, value="1", at=1)},
        schedules_put={_SCHEDULE.key: _SCHEDULE},
    )


def _expect_nothing(store: Store) -> None:
    same([list(store.backend.find(query)) for query in _EVERYTHING], [[] for _ in _EVERYTHING])
    same(store.backend.history(1), [])
    same(store.backend.find(Workflows(tag="red", limit=ALL)), [])


def check_stale_number_writes_nothing(make: BackendFactory) -> None:
    """A batch whose number does not follow the last one raises `StoreFenced` and writes nothing of any kind."""
    with Store(make) as store:
        store.commit()
        for number in (0, 1, 3):
            refuses(StoreFenced, lambda number=number: store.backend.commit(_one_of_each(number)))  # type: ignore[misc]
        same(store.backend.last_batch(), 1)
        _expect_nothing(store)
        same(store.reopen().serial, 0)
        _expect_nothing(store)


def check_failed_commit_writes_nothing(make: BackendFactory) -> None:
    """A batch that breaks a rule of the store raises `InvariantViolated`, and no part of it is stored."""
    with Store(make) as store:
        taken = workflow(20, id="taken")
        store.commit(workflows_new=by_key(taken), history=[(20, entry(0))])
        same_id = _one_of_each(2)
        same_id.workflows_new[21] = workflow(21, id="taken")
        same_seq = _one_of_each(2)
        same_seq.history.add(20, entry(0))
        unknown = _one_of_each(2)
        unknown.workflows_changed[22] = workflow(22)
        two_places = _one_of_each(2)
        two_places.events_put[23] = event(23, target=1, unstarted="later")
        for batch in (same_id, same_seq, unknown, two_places):
            refuses(InvariantViolated, lambda batch=batch: store.backend.commit(batch))  # type: ignore[misc]
            same(store.backend.last_batch(), 1)
        store.save(workflows_purged={20})
        _expect_nothing(store)


def check_numbers(make: BackendFactory) -> None:
    """Every commit advances the number by one, and a new incarnation begins at 0."""
    with Store(make) as store:
        for number in (1, 2, 3):
            store.commit()
            same(store.backend.last_batch(), number)
        store.reopen()
        same(store.backend.last_batch(), 0)
        store.commit()
        same(store.backend.last_batch(), 1)


def check_unknown_outcome(make: BackendFactory) -> None:
    """After a commit whose answer was lost, `last_batch` shows that it happened, and repeating it changes nothing."""
    with Store(make) as store:
        batch = _one_of_each(1)
        store.backend.commit(batch)
        same(store.backend.last_batch(), 1)
        refuses(StoreFenced, lambda: store.backend.commit(batch))
        same(len(store.backend.history(1)), 1)


def check_serial_is_kept(make: BackendFactory) -> None:
    """The highest serial survives, and a lower one in a later batch does not replace it."""
    with Store(make) as store:
        store.commit(serial=41)
        store.commit(serial=7)
        same(store.reopen().serial, 41)
        same(store.reopen().serial, 41)


def check_clean_flag(make: BackendFactory) -> None:
    """A store is clean after a commit with `clean_stop`, and not after any other end, even an open without a commit."""
    with Store(make) as store:
        store.commit()
        same(store.reopen().clean, False)
        store.commit(clean_stop=True)
        same(store.reopen().clean, True)
        same(store.reopen().clean, False)
        store.commit(clean_stop=True)
        store.commit()
        same(store.reopen().clean, False)


def check_close_is_harmless(make: BackendFactory) -> None:
    """Closing twice or before opening does nothing, and a closed handle can be opened again."""
    backend = make()
    backend.close()
    backend.open("one")
    backend.commit(Batch(number=1, workflows_new=by_key(workflow(1))))
    backend.close()
    backend.close()
    backend.open("two")
    same(backend.workflow("workflow-1"), workflow(1))
    backend.close()


def check_use_before_open(make: BackendFactory) -> None:
    """A handle that is not open raises `InvariantViolated` on every call."""
    backend = make()
    refuses(InvariantViolated, lambda: backend.commit(Batch(number=1)))
    refuses(InvariantViolated, lambda: backend.workflow("a"))
    refuses(InvariantViolated, backend.last_batch)


def check_unknown_question(make: BackendFactory) -> None:
    """A query that the protocol does not have raises `InvariantViolated`; an empty answer would hide the mistake."""
    with Store(make) as store:
        refuses(InvariantViolated, lambda: store.backend.find(Query[int]()))


def check_superseded_handle_is_fenced(make: BackendFactory) -> None:
    """Once another incarnation has opened the store, the first handle can neither write nor read `last_batch`."""
    first, second = make(), make()
    first.open("first")
    first.commit(Batch(number=1))
    second.open("second")
    refuses(StoreFenced, lambda: first.commit(_one_of_each(2)))
    refuses(StoreFenced, lambda: first.commit(_one_of_each(1)))
    refuses(StoreFenced, first.last_batch)
    second.commit(Batch(number=1))
    same(second.workflow_by_key(1), None)
    first.close()
    same(second.last_batch(), 1)
    second.close()


CHECKS: tuple[Check, ...] = (
    check_empty_store,
    check_stale_number_writes_nothing,
    check_failed_commit_writes_nothing,
    check_numbers,
    check_unknown_outcome,
    check_serial_is_kept,
    check_clean_flag,
    check_close_is_harmless,
    check_use_before_open,
    check_unknown_question,
)
FENCING_CHECKS: tuple[Check, ...] = (check_superseded_handle_is_fenced,)
