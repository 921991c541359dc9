"""The store in memory: for tests, for trying things out, and as the model that the other stores are compared with.

A store is two things. `MemoryStore` is the rows: it outlives engines, so a test can crash one and start the next on the
same rows. `MemoryBackend` is a handle on them that implements the protocol of `backends.base`. Of several handles on
one store, the one that was opened last may write; the others are fenced.

Follow one commit:

1. `MemoryBackend.commit` refuses a handle that is fenced, and a batch whose number is not the next one.
2. `MemoryStore.check` looks at the whole batch before anything is changed. An SQL store refuses some bad batches by its
   keys and silently accepts others. Here all of them raise `InvariantViolated`, so that bugs of the engine are found.
3. `MemoryStore.apply` first removes rows, then puts the new ones, and keeps every index over them. There is no I/O, so
   it cannot fail half-way.
4. If the store has several shards, the commit draws a mark from the `Letterbox` that all of them share, and its letters
   are in the inboxes of their receivers at once.

Questions (`find`) are answered through one table, from the type of the query to a function (`_ANSWERS` in `backend`). A
new query is one function and one row there.

| you want to know | file |
|---|---|
| the handle of an engine, and the answers to questions | `backend` |
| workflows, histories, waits, timers, schedules; commits and what they must not do | `store` |
| pending events, dead letters, sent ids, who took which broadcast | `mail` |
| letters between the shards of one store | `letters` |

What may be touched: rows are immutable records, replaced as a whole. No lock protects them, so an engine and the test
that reads its store must not run at the same time.

What stays unknown: why a row is written or read. Files, threads, clocks and the engine do not occur here.
"""

from durable.backends.memory.backend import MemoryBackend
from durable.backends.memory.store import MemoryStore

__all__ = [
    "MemoryBackend",
    "MemoryStore",
]
