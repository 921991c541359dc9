"""What a store with several shards keeps apart, what its shards share, and how letters get from one to another.

These checks take a factory of another kind: asked with the number of a shard, it returns a fresh handle on that shard
of one and the same store, which has three of them and is empty when the check begins.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import attrs

from durable.backends.base import (
    Backend,
    Backgrounds,
    Batch,
    ChildIds,
    CreatedMark,
    Inbox,
    Letter,
    Opened,
    PendingEvents,
    StoredLetter,
    TiedShards,
    Undelivered,
    Workflows,
)
from durable.errors import InvariantViolated, StoreFenced
from durable.model.homes import Shard, workflow_home
from durable.model.records import WorkflowRecord
from durable.testing.conformance.kit import ALL, by_key, by_serial, entry, event, keys, refuses, same, workflow

SHARDS = 3
ShardFactory = Callable[[int], Backend]


class Shards:
    """The shards of the store under test, each open under one incarnation after another."""

    def __init__(self, make: ShardFactory) -> None:
        self._make = make
        self._incarnations = 0
        self._numbers = [0] * SHARDS
        self.backends = [make(shard) for shard in range(SHARDS)]
        self.opened = [self._open(shard) for shard in range(SHARDS)]

    def _open(self, shard: int) -> Opened:
        self._incarnations += 1
        self._numbers[shard] = 0
        return self.backends[shard].open(f"incarnation-{self._incarnations}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for backend in self.backends:
            backend.close()

    def commit(self, shard: int, **changes: Any) -> None:
        """Commit a batch of one shard with the number that is due."""
        self.backends[shard].commit(Batch(number=self._numbers[shard] + 1, **changes))
        self._numbers[shard] += 1

    def reopen(self, shard: int) -> Opened:
        """Open one shard through a new handle, as a restarted process would."""
        self.backends[shard].close()
        self.backends[shard] = self._make(shard)
        return self._open(shard)

    def inbox(self, shard: int, *, set_aside: bool = False) -> list[StoredLetter]:
        """The letters to a shard."""
        return list(self.backends[shard].find(Inbox(set_aside=set_aside, limit=ALL)))

    def texts(self, shard: int) -> list[str]:
        """What they say."""
        return [letter.text for letter in self.inbox(shard)]


def _at(shard: int, number: int = 1) -> WorkflowRecord:
    """A workflow that lives in a shard."""
    ids = (f"w{count}" for count in range(ALL))
    id = next(id for id in ids if workflow_home(id, SHARDS) == shard)
    return workflow(number * SHARDS + shard, id=id)


def check_every_shard_says_which_it_is(make: ShardFactory) -> None:
    """A shard that was never used begins with its own number, so that its keys tell it from the others."""
    with Shards(make) as store:
        same([opened.shard for opened in store.opened], [Shard(number, SHARDS) for number in range(SHARDS)])
        same([opened.serial for opened in store.opened], [0, 1, 2])


def check_shards_are_fenced_apart(make: ShardFactory) -> None:
    """Each has its own incarnation, batch number, serial and orderly stop."""
    with Shards(make) as store:
        store.commit(1, serial=10, clean_stop=True)
        store.commit(2, serial=8)
        opened = store.reopen(1)
        same((opened.serial, opened.clean), (10, True))
        other = make(2)
        opened = other.open("another")
        same((opened.serial, opened.clean), (8, False))
        refuses(StoreFenced, lambda: store.commit(2, serial=11))
        store.commit(0, serial=3)
        store.commit(1, serial=13)
        other.close()


def check_rows_lie_in_their_shard(make: ShardFactory) -> None:
    """Lists hold the rows of one shard; single workflows and histories are read from everywhere."""
    with Shards(make) as store:
        records = [_at(shard) for shard in range(SHARDS)]
        for shard, record in enumerate(records):
            events = by_serial(event(30 + shard))
            history = [(record.key, entry(1))]
            store.commit(shard, workflows_new=by_key(record), events_put=events, history=history)
        for shard, record in enumerate(records):
            found = store.backends[shard]
            same(keys(found.find(Workflows(limit=ALL))), [record.key])
            same([one.serial for one in found.find(PendingEvents(limit=ALL))], [30 + shard])
            same([found.workflow(one.id) for one in records], records)
            same([found.workflow_by_key(one.key) for one in records], records)
            same([found.history(one.key) for one in records], [[entry(1)]] * SHARDS)


def check_relatives_in_other_shards(make: ShardFactory) -> None:
    """A workflow's children are listed wherever they live, and a child is shown with the id of its parent."""
    with Shards(make) as store:
        parent = _at(0)
        children = [attrs.evolve(_at(shard, 2), parent_key=parent.key, parent_place=str(shard)) for shard in (1, 2)]
        for shard, record in enumerate((parent, *children)):
            store.commit(shard, workflows_new=by_key(record))
        for backend in store.backends:
            same(list(backend.find(ChildIds(parent.key, ALL))), [child.id for child in reversed(children)])
        for child, backend in zip(children, store.backends[1:], strict=True):
            same([one.parent_id for one in backend.find(Backgrounds((child.key,)))], [parent.id])


def check_rows_of_others_are_not_changed(make: ShardFactory) -> None:
    """A batch that speaks of a workflow of another shard is refused, whole."""
    with Shards(make) as store:
        refuses(InvariantViolated, lambda: store.commit(0, workflows_new=by_key(_at(1)), letters=[Letter(1, "a")]))
        refuses(InvariantViolated, lambda: store.commit(0, letters=[Letter(0, "to myself")]))
        same(store.inbox(1), [])


def check_letters_arrive_with_their_commit(make: ShardFactory) -> None:
    """They lie in the inbox of the other shard by commit, and within a commit as they were written."""
    with Shards(make) as store:
        store.commit(0, letters=[Letter(1, "a"), Letter(2, "b"), Letter(1, "c")])
        store.commit(2, letters=[Letter(1, "d")])
        store.commit(0, letters=[Letter(1, "e")])
        same(store.texts(1), ["a", "c", "d", "e"])
        same(store.texts(2), ["b"])
        same([letter.sender for letter in store.inbox(1)], [0, 0, 2, 0])
        marks = [letter.id for letter in store.inbox(1)]
        same(marks, sorted(set(marks)))
        same([letter.text for letter in store.backends[1].find(Inbox(limit=2))], ["a", "c"])


def check_letter_is_handled_with_its_commit(make: ShardFactory) -> None:
    """A letter goes in the commit that says so, once; and stays through restarts and takeovers until then."""
    with Shards(make) as store:
        store.commit(0, letters=[Letter(1, "a"), Letter(1, "b")])
        store.reopen(0)
        store.reopen(1)
        same(store.texts(1), ["a", "b"])
        first = store.inbox(1)[0].id
        same(len(store.backends[0].find(Undelivered(1))), 1)
        store.commit(1, letters_handled={first}, letters=[Letter(0, "answer")])
        same((store.texts(1), store.texts(0)), (["b"], ["answer"]))
        refuses(InvariantViolated, lambda: store.commit(1, letters_handled={first}))
        store.commit(1, letters_handled={store.inbox(1)[0].id})
        same([list(store.backends[n].find(Undelivered(1))) for n in (0, 2)], [[], []])
        same(len(store.backends[1].find(Undelivered(0))), 1)


def check_unreadable_letter_is_set_aside(make: ShardFactory) -> None:
    """It is out of the way, and kept."""
    with Shards(make) as store:
        store.commit(0, letters=[Letter(1, "a"), Letter(1, "b")])
        store.commit(1, letters_set_aside={store.inbox(1)[0].id})
        same(store.texts(1), ["b"])
        same([letter.text for letter in store.inbox(1, set_aside=True)], ["a"])


def check_marks_tell_what_came_first(make: ShardFactory) -> None:
    """Whoever has seen a commit gets a higher mark, in whatever shard; an event keeps that of its first commit."""
    with Shards(make) as store:
        record = _at(1)
        store.commit(0, events_put=by_serial(event(3)))
        store.commit(1, workflows_new=by_key(record))
        store.commit(0, events_put=by_serial(event(6)))

        def mark(serial: int) -> int:
            return store.backends[0].find(PendingEvents(serial=serial))[0].mark or 0

        (created,) = store.backends[1].find(CreatedMark(record.key))
        same(mark(3) < created < mark(6), True)
        first = mark(3)
        stored = store.backends[0].find(PendingEvents(serial=3))[0]
        store.commit(0, events_put=by_serial(attrs.evolve(stored, taken=True)))
        same(mark(3), first)
        store.commit(0, events_dropped={3})
        store.commit(0, events_put=by_serial(stored))
        same(mark(3), first)


def check_shards_with_tied_children(make: ShardFactory) -> None:
    """Where a workflow has started children that end with it is kept until it is purged."""
    with Shards(make) as store:
        record = _at(0)
        store.commit(0, workflows_new=by_key(record), tied_shards={(record.key, 2)})
        store.commit(0, tied_shards={(record.key, 1), (record.key, 2)}, serial=9)
        same(sorted(store.backends[0].find(TiedShards(record.key))), [1, 2])
        store.commit(0, workflows_purged={record.key})
        same(list(store.backends[0].find(TiedShards(record.key))), [])


SHARD_CHECKS: tuple[Callable[[ShardFactory], None], ...] = (
    check_every_shard_says_which_it_is,
    check_shards_are_fenced_apart,
    check_rows_lie_in_their_shard,
    check_relatives_in_other_shards,
    check_rows_of_others_are_not_changed,
    check_letters_arrive_with_their_commit,
    check_letter_is_handled_with_its_commit,
    check_unreadable_letter_is_set_aside,
    check_marks_tell_what_came_first,
    check_shards_with_tied_children,
)
