"""Where workflows are stored: the protocol (`base`) and the stores that implement it.

The engine asks three things of a store: take it (`open`), apply a batch of changes (`commit`), and answer questions
(`workflow`, `history`, `find`, `count`). A store keeps rows. It has no policy, no clock and no opinion about statuses:
the same batch in the same order gives the same content in every store.

Follow one commit. The engine gathers the net changes of many decisions in a `Batch` (`base/batch`) and calls
`commit(batch)` on the coordinator's thread. The SQLite store opens one transaction, checks that this engine still owns
the store and that the batch number follows its last one, applies what the batch drops and then what it puts
(`sql/writing`), and commits. Only then does the engine release the results. If the commit fails, the engine repeats it;
if its outcome is unknown, the engine asks for `last_batch` first.

What must hold in every store:

- A batch is applied as a whole or not at all, and it is durable when `commit` returns.
- An engine that was superseded cannot write (`StoreFenced`). Two engines never write to one store.
- A damaged row never hides sound ones. It is reported and left out, or shown as a parked workflow.
- Questions are answered from what is committed, in the order that the question names.

A backend imports the model, the errors and `base`. It knows nothing about the runner or the engine. The conformance
suite in `durable.testing.conformance` says what a store must do, and every store runs it.

| where       | holds                                                                   |
|-------------|-------------------------------------------------------------------------|
| `base/`     | the protocol, the batch, and the questions as values                    |
| `sql/`      | tables, rows and statements, for every store that uses SQL              |
| `sqlite/`   | the store in a SQLite file: its lock, its log, its checks, its backups  |
| `memory/`   | the store in memory, for tests and for work that need not survive       |
| `url`       | what a user may pass as a store, and which backend it means             |
| `histories` | histories exported as JSON files, for replay tests                      |
"""
