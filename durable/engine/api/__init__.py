"""What people call: engines, handles, and one group of methods per noun.

Every call takes the same path. Follow `await engine.send_event(paid, order, to="order-42")`:

1. **Check.** `WorkflowClient.send_event`, which the engine inherits, checks the arguments in the caller's task, so a
   mistake raises at the line that made it. Payloads become JSON text here as well: that runs code of the user, which
   must not reach the coordinator's thread.
2. **Build.** The checked values become an operation (`durable.engine.operations`): plain data that could as well have
   arrived over a wire. Nothing behind this point knows which method was called.
3. **Ask.** `Core.ask`, the engine's `Way`, refuses the call unless the engine is open in this event loop. Then it takes
   one of the `max_inbox` places, so that a burst of callers waits here and not in an endless queue, and submits the
   operation to the coordinator's thread.
4. **Wait.** The coordinator decides, commits, and wakes the caller, in this order. A call that has returned is durable.
   A caller that is cancelled meanwhile leaves the operation in the queue: it may still take effect.
5. **Answer.** The reply becomes what people read: a handle, a summary, a decoded result. Some operations reply with an
   error instead of raising one, because the refusal is part of the decision; `_raise` raises it here.

The sync API adds one step in front. `SyncWorkflowEngine` owns a thread with an event loop (`LoopThread`); each method
submits the coroutine of the async one to that loop and waits.

What may be touched: `Core` alone holds the `Runtime`, which is the coordinator, its thread and the activity pool. A
group holds a `Way` to ask and nothing else, so that the same groups serve clients in other processes. No workflow state
lives here: every answer was read by the coordinator.

What stays unknown: how a decision is made, how a store works, whether a workflow is in memory. The two doors out are
`backup`, which copies a store without asking the coordinator, and `open_store`, which turns a URL into a store.

Two guards stand in front of every method. `service_call` (or `refuse_in_body`) refuses calls from inside a workflow
body: they would deadlock, or escape replay. `check_open` refuses calls from another event loop, where no answer would
ever arrive, and from a forked process, where the coordinator's thread does not exist.

Where to look:

| you want to know | file |
|---|---|
| which calls clients and engines have, and what each may raise | `client` |
| what an engine adds to a client: opening, recovery, shutdown, backups | `engine` |
| what groups and handles need to ask | `way` |
| how an engine shares its store with other processes, and takes over | `standby` |
| how an engine opens, closes, fails, and what a call gets in each stage | `core` |
| result, status, progress and watching of one workflow | `handle`, `updates` |
| listing, history, retry, fork, repair, purge | `runs` |
| questions to people, pending events, dead letters, schedules | `pauses`, `events`, `dead_letters`, `schedules` |
| how sync methods are made from async ones | `sync_groups`, `sync` |
| the thread behind `SyncWorkflowEngine`, and what Ctrl-C does to it | `loop_thread` |
| how arguments are checked | `arguments`, and the `check_*` functions in `durable.model.ids` |
"""
