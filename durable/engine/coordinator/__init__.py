"""The thread that owns all state: take, decide, commit, release.

There is one `WorkflowStateCoordinator` per store. Everything it does happens in one thread, so no decision needs a lock
and no decision can see half of another one.

One turn of its loop (`coordinator.py`):

1. *Take* everything that is queued, and the timers that are due, in one order (`inbox`). Calls that arrived before a
   deadline are decided before it.
2. *Decide* each operation through the tables in `decisions`. What follows from a decision is handled before the next
   operation.
3. *Commit* the batch in one transaction. A commit that fails is repeated, unreleased, for as long as `commit_patience`
   allows (`upkeep`). The batch number tells whether an attempt with an unknown outcome happened after all.
4. *Release*: replies and activities go into the loop of the service in one call. Callers that wait for an end or a
   change are answered once it is committed (`callers`).

In a store with several shards, a turn first handles the letters from other shards that have arrived.

Before the first turn comes recovery, as a separate phase: crash counts are committed when the store is opened, then
running workflows are loaded page by page. No timer fires and no call is taken before that is over.

The engine is crash-only. A store that stays broken, or a bug in a decision, ends the thread: callers get an error,
memory is thrown away, and the next start recovers.

Follow one event through a turn. In the thread of the service, `host.runtime` wraps a `SendEvent` in an `Envelope` and
calls `submit`. `Inbox.take` hands it out with everything else that is queued. `process` opens a turn and passes the
operation to `decide_in`, which finds `decide_send_event` in a table and then handles the messages that the decision
sent. The reply stays in the envelope. `_commit` makes the batch durable; `_apply` sorts the effects; and one `Release`
carries the envelope and the new activities into the loop, where the envelope's `wake` resumes the caller.

What may be touched: only the coordinator's thread touches the state, the watchers and everything of the inbox except
its queue. From other threads only `submit`, `stop` and `refuse_rest` may be called.

What stays unknown: what an operation means. No feature adds a line to the loop; a new operation is one row in
`decisions`.

| you want to know | file |
|---|---|
| the loop: recovery, a turn, the commit, the release, the end | `coordinator` |
| which calls, timers and own operations come next, and in which order | `inbox` |
| which function decides an operation, handles a message, checks a kind of wait | `decisions` |
| how callers wait for an end or a change | `callers` |
| how a commit that failed is repeated; is the file of the store still there, can it shrink | `upkeep` |
"""
