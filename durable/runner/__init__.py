"""Runs one workflow body, live or from its history. Pure: no I/O, clock, thread, event loop or randomness.

A body is a generator. It yields operations (`sleep(5)`, `charge(order)`, `gather(...)`) and receives their results.
Every result comes from a recorded *entry*: an activity returned, a timer fired, a person answered. A body that gets the
same entries in the same order does the same things. So the engine may drop a live body at any moment and rebuild it
from its history, and the body cannot tell.

Follow one entry: a body waits at `yield from approval.wait()`, its third operation, and the event arrives.

1. `session.feed(entry)` looks up the open wait at the entry's position, "2". Kind and name must match. An entry without
   a matching wait may be a cancellation, an operator's note, or the record of a removed step. Anything else raises
   `HistoryDiverged`.
2. The row for the wait's kind (`kinds`) decodes the outcome. The session closes the wait and sets its clock to the
   entry's time.
3. `interpreter.advance` sends the outcome into the fiber that waited, and then runs every fiber that is ready. A fiber
   runs until it yields an operation. For a leaf, the row for its kind prepares a wait, and the wait is opened. For an
   operation with branches (`gather`, `race`, `saga`, `loop`), each branch becomes a fiber.
4. When a fiber ends, the tally of its group says whether the group is decided. If it is, the losers are closed and
   their waits are withdrawn. A scope that failed first runs the undos that it owes (`undo`). So does a failed body.
5. When every fiber waits, `feed` returns `Suspended` with the waits that this entry opened and withdrew. When the body
   has ended, `feed` returns `Completed`, `Failed` or `ContinueAs`.

`start()` is step 3 for a new body. `replay(entries)` is `start()`, then `feed` for each entry. A body can be run in no
other way, so a replay cannot differ from the live run. Before the first step, `past` reads ahead what cannot wait for
its turn: answers of `patched`, loop rounds that are over, and what operators have changed.

Where to look:

    drive a session                     session, results; its parts: interpreter, fibers
    what an operation is                ops (all of them), kinds (one row per kind of wait)
    the events that code declares       declared
    one operation that waits            definitions, events, pauses, children, timers, changes (`removed`)
    operations with branches            combinators, loops, undo (`saga`), rivals (an event against a timer)
    functions that do not wait          determinism, draws, publishing, logs, changes (`patched`)
    read a history ahead, check a fit   past, replaying
    mistakes in a body                  misuse, limits, twice, forgotten, kept_errors

A session has parts, each with its own state: `Waits`, `Interpreter`, `Undos` (made with the first undo), one `Course`
per running loop, and `Draws` (made with the first draw). Parts and operations see the session through the protocol
`Ambient`. No part may hold a reference to the session between steps: a reference cycle would leave every ended body to
the garbage collector.

What may be touched: a session changes itself and nothing else. Only the thread that feeds it may call it. That
includes `close()`, which runs code of the body.

What stays unknown: where entries come from and where they are stored, other workflows, and the engine. `now()` is the
time of the last entry. `uuid()` and `random()` are derived from names.

To add an operation that waits, write it in its own file and add a row to `kinds`. To add one with branches, write the
operation and its tally as in `combinators`.
"""
