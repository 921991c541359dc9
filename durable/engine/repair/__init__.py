"""What an operator does to one workflow: `engine.runs.retry`, `fork` and `repair`.

Each is one operation and one decision, like everything in `decide`. They are a separate room because they look at a
history in a way that no other decision does: they ask what the current code would make of it.

All three go through the same steps:

1. Find the workflow and its history. Refuse what cannot be done (`CannotRetry`, `CannotFork`, `CannotRepair`), with the
   step that prevents it. Nothing has been written at that point.
2. Rebuild the body from the changed history in a dry run (`decide.dry_run`). The body is thrown away afterwards. If it
   would diverge or fail in the same way again, refuse.
3. Write the change together with an entry that says what was done (`RETRIED`, `FORKED`, `REPAIRED`), so that the
   history stays complete, and let the workflow run.

`retry` continues a failed or parked workflow where it stopped, with its children. `fork` runs the workflow again from
an earlier position, under another id. `repair` replaces one recorded result.
"""
