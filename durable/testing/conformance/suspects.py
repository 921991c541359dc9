"""What a store keeps for crash blame: workflows on trial, and the mark of the body that ran when the process died.

The mark is an array that the engine writes before each step without a commit, so it must survive the death of the
process, but not that of the machine. A store without such a place returns 0, and the engine finds culprits by trial.
"""

from __future__ import annotations

from durable.backends.base import Suspects
from durable.testing.conformance.kit import BackendFactory, Check, Store, by_key, same, workflow


def check_suspects_are_put_and_dropped(make: BackendFactory) -> None:
    """A put replaces the count of its workflow; a drop or a purge removes only its own."""
    with Store(make) as store:
        same(store.backend.find(Suspects()), [])
        store.save(workflows_new=by_key(workflow(1), workflow(2), workflow(3)), suspects_put={3: 1, 1: 1, 2: 1})
        store.save(suspects_put={1: 2}, suspects_dropped={3, 77})
        same(store.backend.find(Suspects()), [(1, 2), (2, 1)])
        store.save(workflows_purged={2})
        same(store.backend.find(Suspects()), [(1, 2)])


def check_mark_outlives_the_engine(make: BackendFactory) -> None:
    """The next engine reads the last mark of the one before; a store that cannot keep marks returns 0."""
    first = make()
    opened = first.open("first")
    opened.mark[0] = 7
    first.close()
    second = make()
    try:
        marked = second.open("second").marked
        assert marked in (0, 7), marked
    finally:
        second.close()


CHECKS: tuple[Check, ...] = (check_suspects_are_put_and_dropped, check_mark_outlives_the_engine)
