"""What every store must do, as plain functions that raise `AssertionError`. For authors of a backend.

The engine asks little of a store, but all of it: a commit is all or nothing and numbered, reads return exactly what was
committed, and every query has the order and the paging that its docstring in `durable.backends.base` promises. Each
check here tests one such promise. A store that passes all of them can run the engine.

A check takes a factory. Each call of the factory returns a new handle on *the same* store, which is empty when the
check begins: most checks close the store and open it again through a second handle, as a restarted process would, and
read what was really kept. With pytest:

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_conformance(check, tmp_path):
        check(lambda: MyBackend(tmp_path / "store"))

`FENCING_CHECKS` are for stores that let a second handle open while the first one is open; the first must then be unable
to write. A store that refuses the second handle, as SQLite does with its owner lock, does not need them. `SHARD_CHECKS`
are for stores with several shards; they take another factory (`shards`).

A new query or batch field in `durable.backends.base` needs a check here, and no backend may be named in one: a check
knows the protocol only.

| what is checked | file |
|---|---|
| the store and the records that checks share | `kit` |
| atomic commits, their numbers, fencing, the clean flag | `commits` |
| workflows: rows, history, deadlines, purge | `workflows` |
| the filters of workflows, in pages | `filters` |
| events: waits, queues, mailboxes, expiry, dead letters, senders' ids | `events` |
| children, and the progress that workflows publish | `children` |
| pauses: questions, and the list of open ones | `pauses` |
| schedules, by name and key, and among the timers | `schedules` |
| several shards: homes, marks and letters | `shards` |
| answers to requests, and requests kept for the next engine | `requests` |
| crash blame: suspects, and the mark of the running body | `suspects` |
"""

from __future__ import annotations

from durable.testing.conformance import (
    children,
    commits,
    events,
    filters,
    pauses,
    requests,
    schedules,
    shards,
    suspects,
    workflows,
)
from durable.testing.conformance.kit import BackendFactory, Check
from durable.testing.conformance.shards import ShardFactory

CHECKS: tuple[Check, ...] = (
    *commits.CHECKS,
    *workflows.CHECKS,
    *filters.CHECKS,
    *events.CHECKS,
    *children.CHECKS,
    *pauses.CHECKS,
    *schedules.CHECKS,
    *suspects.CHECKS,
    *requests.CHECKS,
)
FENCING_CHECKS: tuple[Check, ...] = commits.FENCING_CHECKS

SHARD_CHECKS = shards.SHARD_CHECKS

__all__ = ["CHECKS", "FENCING_CHECKS", "SHARD_CHECKS", "BackendFactory", "Check", "ShardFactory"]
