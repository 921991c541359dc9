"""The thread that owns all state: take, decide, commit, release.

There is one `WorkflowStateCoordinator` per store. Everything it does happens in one thread, so no decision needs a lock
and no decision can see half of another one.

One turn of its loop (`coordinator.py`):

1. *Take* everything that is queued, and the timers that are due, in one order (`inbox`). Calls that arrived before a
   deadline are decided before it.
2. *Decide* each operation through the tables in `decisions`. What follows from a decision is handled before the next
   operation.
3. *Commit* the batch in one transaction. A commit that fails is repeated, unreleased, for as long as `commit_patience`
   allows (`patience`). Whether an attempt with an unknown outcome happened after all is settled by the batch number.
4. *Release*: replies and activities go into the loop of the service in one call. Callers that wait for an end or a
   change are answered when it has been committed (`callers`).

Before the first turn comes recovery, as a phase of its own: crash counts are committed when the store is opened, then
running workflows are loaded page by page. No timer fires and no call is taken before that is over.

The engine is crash-only. A store that stays broken, or a bug in a decision, ends the thread: callers get an error,
memory is thrown away, and the next start recovers. `upkeep` is what a store in a file needs besides commits.
"""
