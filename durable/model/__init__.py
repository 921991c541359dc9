"""Values that every room may import: what is stored of a workflow, and how values and errors become JSON.

Everything here is a value or a pure function. Nothing opens a file, starts a thread or waits. `clock` alone reads the
time, `ids` alone draws randomness, and both can be replaced by a test.

Follow one step of a workflow through this room. A body asks for an activity. Its arguments are checked and copied by
the `FunctionCoder` of the activity (`codec`), so that caller and callee share nothing that can change. The runner
builds the position of the step (`position`). The activity returns; a `Coder` writes the result as JSON text, reads it
back and compares the two (`shapes/`). A value that does not come back the same is refused here, before it is stored
and not when it is needed. The text becomes a `HistoryEntry` (`records`), and a new `WorkflowRecord` carries the new
status. If the activity fails instead, `error_codec` takes the error apart (`exceptions/`), and `retry` decides whether
and when there is another attempt.

Rules that hold in the whole room:

- Records do not change. A decision makes a new record, and `WorkflowRecord.with_status` refuses a status that the
  table `TRANSITIONS` does not allow.
- Instants and durations are integers, in microseconds; instants count from 1970 in UTC. Datetimes and timedeltas exist
  only at the public surface.
- Payloads, results and errors are JSON text. Only the codec reads them.
- Enum values, positions, places, child ids and the form of JSON are stored formats. `tests/formats` pins them; a change
  needs a migration.
- Reading never imports a module and never runs code named by a stored text.

This room imports `durable.errors` and nothing else from durable. It knows nothing about bodies, engines or stores.

Where to look:

| file           | holds                                                                      |
|----------------|----------------------------------------------------------------------------|
| `clock`        | the clock, and the conversion between instants and datetimes               |
| `ids`          | random ids, checks of ids and names, stable digests and seeds              |
| `position`     | the path of an operation in a workflow; ids of children                    |
| `statuses`     | the statuses of a workflow                                                 |
| `begun`        | whether a body has run: the definition of "not begun yet"                  |
| `records`      | workflows, history entries, waits, pending events, pauses                  |
| `dead_letters` | pending events and dead letters, as people see them                        |
| `summaries`    | one line about a workflow, for lists                                       |
| `schedule`     | when a schedule ticks, and its record                                      |
| `timers`       | timers of workflows and of schedules                                       |
| `retry`        | the retry policy, and the delay before the next attempt                    |
| `registry`     | workflow definitions by name and version                                   |
| `codec`        | values as JSON text, by annotation                                         |
| `shapes/`      | the parts of `codec`: one form for each kind of type                       |
| `error_codec`  | errors as JSON text                                                        |
| `exceptions/`  | the parts of `error_codec`: exceptions taken apart and rebuilt             |
| `unfinished`   | operations found where a value belongs                                     |
| `version`      | the version of durable                                                     |
"""
