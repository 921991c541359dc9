"""State: what the engine knows, and the only code that writes to the open batch.

One `State` belongs to one coordinator, and only the coordinator's thread touches it. Three layers lie on top of each
other: the store, the open batch over it, and live bodies over both. Every read looks through all three, so an operation
sees everything that was decided before it in the same batch. A change is noted in the batch and visible at once; it
becomes durable when the coordinator commits the batch.

Follow an event for a suspended workflow through this room:

1. `State.find` gives the record of its workflow, and `Waits.of` the rows of its waits. The decision picks one.
2. The decision loads the body (`State.load`) and feeds it. `Chronicle.append` records the entry.
3. The body waits again: `Waits.drop` removes the old row, `Waits.put` stores the new one, and `mark_suspended` changes
   the workflow's row and its timer. If no wait fits, `Postbox.put_event` keeps the event instead.
4. The coordinator takes the batch (`State.seal`), commits it, and opens the next one (`State.next_batch`).

Decisions change a workflow only through the verbs of `workflows`, which are those of the blueprint. Each verb checks
the transition table (`WorkflowRecord.with_status`), writes the row and moves the timer.

| verb                     | the workflow                                                     |
|--------------------------|------------------------------------------------------------------|
| `register_workflow`      | is stored for the first time                                     |
| `mark_suspended`         | waits for an event, a timer, a child or a person                 |
| `mark_resumed`           | runs: an activity is open, or its body is to be stepped          |
| `mark_parked`            | is set aside until its code or its data fits again               |
| `mark_finished`          | has ended                                                        |
| `update_for_continue_as` | starts its next round with new arguments and an empty history    |
| `cancel_workflow`        | was asked to stop                                                |
| `retry_workflow`         | had failed and continues                                         |
| `restart_workflow`       | had ended with its parent and starts again with it               |
| `purge_workflow`         | is removed                                                       |

The other names of the blueprint:

| name                     | file     | what it does                                                                  |
|--------------------------|----------|-------------------------------------------------------------------------------|
| `register_timer`         | `timers` | wakes a workflow or schedule at an instant                                    |
| `cancel_timer`           | `timers` | removes one timer                                                             |
| `cancel_all_timers`      | `timers` | removes all timers from memory when the engine stops; the rows keep deadlines |
| `take_due_timers`        | `state`  | takes the timers whose deadline has passed out of the window                  |
| `find_waiting_for_event` | `events` | the waits for an event, the longest first                                     |
| `get_active`             | `state`  | a workflow whose body may be stepped: not ended, not parked                   |
| `recover_workflows`      | `state`  | a page of the workflows that were running or parked at the last commit        |

| you want to know                                                              | file         |
|-------------------------------------------------------------------------------|--------------|
| how the three layers are read as one, when bodies are evicted, the next batch | `state`      |
| rows of workflows, their histories, what is in memory of a live body          | `workflows`  |
| waits, pending events, dead letters, senders' ids, broadcasts that were taken | `events`     |
| the next timers, and schedules                                                | `timers`     |
| which workflow may have caused a crash                                        | `crashes`    |
| rows that were read ahead for a batch                                         | `prefetched` |
| letters to and from other shards                                              | `outbox`     |
| answers to callers of other processes, and requests that were kept for later | `requests`   |

A store may have several shards. A state belongs to one of them and never changes data of another. It may read there:
`by_key`, `find` and `Chronicle.of` return what the other shard committed last; queries such as `living_children` see
this shard only. To change something in another shard, a decision posts a letter (`Outbox.post`). The letter is part of
the batch, so it is sent exactly if the batch is committed.

Nothing here decides anything: no policy, no clock, no reply.
"""
