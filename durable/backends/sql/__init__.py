"""The SQL that stores share: how records become rows, how questions become statements, how a batch is written.

This room knows tables, rows and statements. It holds no connection and begins no transaction; the store does that
(`sqlite/store`). So a statement can be tested without a store, and a plan without an engine
(`tests/backends/test_plans.py`).

Follow a record. On the way in, `writing` takes it out of a batch and runs the statement for its table; `rows` turns it
into a tuple, in the order of `Table.columns`. On the way out, `queries` turns a question into a `Select`: a statement
with a `:limit` that the store binds, its parameters, and the `Table` of its rows. The store runs it and calls
`Table.record` on each row. That checks the types and ranges of all columns first and then builds the record. A row that
is damaged raises `CodecError`, which names the table and the row, so that the store can leave out that row only.

A damaged row of a workflow gets more care, because people must find it. `damaged` shows it as PARKED, with the readable
columns and with a detail that names the others. Questions that filter by status must include it, so `queries` accepts
the keys of damaged workflows.

What must hold:

- Every value is a bound parameter. Only names and enum values of durable are part of the text of a statement.
- Every question that runs during normal work uses an index. The comments next to the statements say which, and why a
  CROSS JOIN or a unary plus is there; `test_plans.py` fails if SQLite chooses another plan.
- Rows are checked although the tables are STRICT: a damaged page can hold anything.
- The columns, and the texts in them, are stored formats.

| file            | holds                                                              |
|-----------------|--------------------------------------------------------------------|
| `tables`        | `Table` and `Column`: the check of a row, select and insert        |
| `rows`          | the tables of workflows, histories, waits, events                  |
| `mail_rows`     | the tables of dead letters and taken broadcasts                    |
| `schedule_rows` | the table of schedules                                             |
| `request_rows`  | the tables of answers and kept requests, and their questions       |
| `writing`       | a batch as statements                                              |
| `queries`       | questions as statements                                            |
| `view_queries`  | the questions that only views ask                                  |
| `damaged`       | workflows whose rows cannot be read                                |
| `indexes`       | conditions that partial indexes and queries must spell alike       |
"""
