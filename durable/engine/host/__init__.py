"""What lives in the service's event loop: activities, the bridge to the coordinator's thread, and the engine's tasks.

Follow one activity, from the commit that asks for it to the operation that records its result:

1. The coordinator has committed a batch and posts one `Release` for it. `LoopBridge.post` carries it into the loop
   without waiting, because the thread must continue with the next batch.
2. In the loop, `Core._receive` passes the effects to `ActivityPool.apply`. `RunActivity` joins a queue; `StopActivity`
   takes an activity out of the queue or cancels it. Nothing is started here: this is a bare callback of the loop, and
   tasks can only be started from a task.
3. A worker, one of the pool's tasks, takes the effect from the queue. Workers are reused, since a task costs more than
   a short activity.
4. `Attempts.run` makes the attempt: an `async def` function on the loop, a `def` function in a thread, under the
   timeout of its definition. The result is checked and encoded here, next to the code that produced it.
5. Whatever happens, the attempt ends in a `RecordActivity`, submitted to the coordinator: a value, or an encoded error.
   The coordinator decides whether it is still wanted, whether to retry, and what the workflow does next.

Two things cut this short. A `StopActivity` cancels the attempt, and no result is reported. A shutdown drains: it starts
nothing new, waits up to `drain` seconds, and cancels the rest; what was cut off runs again after the next start.

Observers are told what happens by the `Reporter`: each has a bounded queue and a thread of its own. The `Witness` tells
when an attempt begins and ends, and puts it into the context of its workflow's trace.

What may be touched: the pool's queue and workers, from the loop only. The coordinator is reached by `submit` alone. The
exceptions are `Watchdog`, whose `enter` and `leave` the coordinator's thread calls around every step of a body, and
`Runtime._run_thread`, which is that thread.

What stays unknown: histories, retries, statuses, whether an answer is still wanted. An attempt carries its workflow
key, round, position and number, and those decide later, in the coordinator.

| you want to know | file |
|---|---|
| what belongs to one opening of an engine, and how the coordinator's thread starts and ends | `runtime` |
| how the thread calls into asyncio or trio, and how a caller waits | `bridge` |
| which activity runs when, how they are stopped, and what a shutdown waits for | `activities` |
| what one attempt does: timeout, thread, result, error | `attempts` |
| where plain functions run, and why not in anyio's threads under asyncio | `threads` |
| which task owns the engine's task group, and how a failure reaches the service | `task_group` |
| how a workflow body that is slow or stuck is found | `watchdog` |
| how facts reach observers, and why none can hold up the engine | `reporter` |
| what is told of attempts, and how a trace reaches them | `witness` |
"""
