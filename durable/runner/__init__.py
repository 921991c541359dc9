"""The pure part: what a workflow body can say, and the session that drives it.

A body is a generator. It yields operations and gets their results, and everything that it learns arrives as a recorded
*entry*: an activity returned, a timer fired, a person answered. Given the same entries in the same order, a body does
the same thing. So a body can be thrown away at any moment and rebuilt from its history, and nobody can tell.

What happens to one entry, in this order:

1. `session.feed(entry)` looks for the open wait at the entry's position. Kind and name must match. If they do not, the
   entry is a cancellation, an operator's note or what is left of a removed step; anything else is a divergence, and the
   session raises `HistoryDiverged`.
2. The row of the wait's kind (`kinds`) reads the outcome. The session closes the wait and sets its clock to the time of
   the entry.
3. The interpreter (`interpreter`) sends the outcome into the fiber that waited, and runs every fiber that can run. A
   fiber runs until it yields an operation. If that is a leaf, the row of its kind prepares a wait, which is then open.
   If it has branches (`gather`, `race`, `saga`, `loop`), each branch becomes a fiber.
4. A fiber that ends decides, through the tally of its group, whether the group is decided. Losers are closed, and
   their waits are withdrawn. What a failed scope owes is undone first (`undo`), and the end of the whole body waits for
   that as well.
5. When every fiber waits, `feed` returns `Suspended` with the waits that were opened and withdrawn. When the body has
   ended, it returns `Completed`, `Failed` or `ContinueAs`.

`start()` is step 3 for a new body. `replay(entries)` is `start()` and then `feed` for each entry. There is no second
way to run a body, so a replayed run cannot differ from the live one. What a history says in advance (answers of
`patched`, rounds of loops that are over, what operators have changed) is looked up before the first step: see `past`.

The parts of a session, each with its own state:

- `Waits` (`waits`, `agenda`): the open waits, their deadlines, and what has changed since the last answer.
- `Interpreter` (`interpreter`, `fibers`): the fibers and groups, those that can run, and how the body has ended.
- `Undos` (`undo`): what is owed, what is being undone, and who waits for that. Made when the first undo is owed.
- `Course` (`loops`): one for each loop that runs; its round, its state, and the entries that its rounds need.
- `Draws` (`draws`): how often which name was drawn. Made at the first draw.

Parts and verbs see the session through the protocol `Ambient` (`ambient`). No part refers to the session for longer
than a step: references in a circle would leave every ended body to the garbage collector.

What may be touched: a session changes itself and nothing else. Only the thread that feeds it may call it, and also
close it, because closing runs code of the body.

What must stay unknown: where entries come from and where they are stored, other workflows, the engine. There is no
I/O, no clock, no thread, no event loop and no randomness. `now()` is the time of the last entry, and `uuid()` and
`random()` follow from names.

To add an operation that waits: write it in a file of its own and add a row to `kinds`. To add one that runs branches:
write it and its tally, as in `combinators`.
"""
