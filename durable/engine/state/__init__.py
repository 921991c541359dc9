"""State: what the engine knows, and the only code that writes to the open batch.

One `State` belongs to one coordinator, and only its thread touches it. Three layers lie on top of each other: the
store, the open batch over it, and live bodies over both. Every read looks through all three, so an operation sees
everything that was decided before it in the same batch. A change is noted in the batch and seen at once; it becomes
durable when the coordinator commits the batch.

Decisions change a workflow only through the verbs of `workflows`, which are those of the blueprint:

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

Each verb checks the transition table (`WorkflowRecord.with_status`), writes the row and moves the timer.

The other rooms: `chronicle` (histories and progress), `waits` (who waits for what), `postbox` (pending events),
`archive` (dead letters, senders' ids, broadcasts that were taken), `timetable` (schedules), `timers` (the window of the
next deadlines), `trials` (who may have caused the last crash), `family` (children), `bodies` (live sessions), `outbox`
(letters to other shards, and those that were read).

A store may have several shards. A state belongs to one of them and changes nothing that lives in another; what it reads
there, by `by_key` or `find`, is what was committed last.

Nothing here decides anything: no policy, no clock, no reply.
"""
