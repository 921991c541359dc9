"""Whole engines in one thread, in virtual time, from one seed: `python -m simulation --seed 7`.

**A seed** is a number that stands for everything that happens. `make_scenario` turns it into a `Scenario`, which is a
value: the programs of workflows, the calls of clients and people, the settings, and the faults, each with the count at
which it strikes. Only durations, and the order of things at the same instant, are drawn while the scenario runs, from
dice with the same seed. So a seed gives the same trace every time, and a failing seed is the bug report. The meaning of
a seed changes when a row or a weight changes; a scenario in a file keeps its meaning.

**A world** runs one scenario (`world`). Each shard of the store is a `Node`: a real coordinator without its thread, and
the store in memory behind a backend that fails as planned. Activities are plain functions that the agenda calls at
their time. In each step the due faults strike, and then either the agenda acts or a coordinator processes one batch.
When nothing is due, the clock jumps to the next instant. A crash throws the coordinator away, and the next one recovers
from the rows. The world ends when nothing is left to happen.

Follow one event. A client makes a `SEND` (`clients`, `calls`) and asks the engine of the shard that decides it. The
coordinator commits; the commit truly happens in `WatchedBackend`, which shows it to the checker before the engine gets
its answer. The rules judge the commit, the ledger books it, more rules judge the result. The reply reaches the client,
which checks that the ledger agrees with it (`promises`). If the process dies first, the client asks the next engine.

**The oracle** is what a program must result in, known before it runs. Programs are trees of `Step`s, and each kind of
step is a `Row` with four functions: make one from dice, run it in a workflow body, does this value fit, which errors
may it raise. Every result holds the number of its step, so no two results can be confused.

**The invariants** have numbers (`I1`, `L1`) and live in three places:

- `rules`: functions of the ledger and one commit, run before or after the commit is booked. Each subject has its file.
- `checker`: what is checked when something leaves the engine: an activity begins, a caller gets an answer.
- `rest`: what must hold while the engine is idle and at the end, when every workflow has ended or waits for something
  from outside.

The ledger only adds up true commits. It never asks the store or the engine, so it cannot share their errors.

**To repeat a failure**, run the command that was printed: `python -m simulation --seed N`. It prints the invariant, the
step, and a smaller scenario (`shrink`: fewer acts, fewer faults, simpler programs, as long as the same invariant
fails). Save that in a file, run it with `--scenario FILE`, and edit it by hand to find out what matters. The last lines
of the trace are in the notes of the `Violation`, which pytest shows.

**To add a row**: write its functions, add it to `ROWS` (`rows.add`), in the file of its subject. If existing seeds
should keep their meaning, give it weight 0 and bring it in from separate dice, as `sending` and `hardships` do.

**To add a rule**: write `iNN_what_holds(ledger, batch, now)`, raise a `Violation` if it does not hold, and enter it in
`BEFORE` or `AFTER` in `rules`. Book what it needs in the ledger; checking a commit must cost no more than its size.
Then plant a bug in `tests/planted` that the rule must find: a rule that never failed proves nothing.

| you want to know | file |
|---|---|
| programs as values and as text, and the table of rows | `steps`, `rows` |
| more rows | `branch_rows`, `loop_rows`, `change_rows`, `children`, `asking`, `sending` |
| what rows are made of: activities, undos, events, progress | `activities`, `holds`, `kinds`, `told` |
| a scenario from a seed, and as JSON | `scenario`; more of it in `planning` (schedules) and `hardships` |
| faults, and how often each comes | `troubles` |
| time, chance, one step of the world | `agenda`, `dice`, `world` |
| a shard and its faults; one life of an engine | `node`, `process` |
| who calls the engine, with what, and what an answer promises | `callers`, `clients`, `calls`, `people`, `promises` |
| what all commits add up to | `ledger`, with `mail` (events), `posted` (letters), `forked` (forks) |
| the invariants of commits | `rules` has the tables; the other files of rules are imported there |
| the invariants of everything else, and how a broken one is reported | `checker`, `rest`, `violation` |
| many seeds, figures, the command, smaller scenarios | `runs`, `figures`, `__main__`, `shrink` |
"""
