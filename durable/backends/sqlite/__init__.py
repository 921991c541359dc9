"""The store in a SQLite file, for one engine on one machine.

Most of this room is about files, because that is where stores are lost: a deleted file that SQLite keeps writing to, a
backup that is copied over a file whose log is still there, two engines on one file, a power cut. Each such danger has
one module that knows about it.

Follow an `open`. `storefile` looks at the path and refuses what cannot be a store, before anything is written.
`owner` takes two locks: one on a file beside the store, tied to the path, and one on the store itself, tied to the
inode. `store` connects, and `schema` checks the file again, now that no other process can change it. `opening` sets up
WAL. `generation` writes into the lock file which numbers the header may have from now on. One transaction migrates the
schema, records the incarnation, and marks the store as not cleanly stopped. Finally `stepmark` maps the file that says
which body runs, and `filewatch` remembers the identity of the files.

A client of another process opens the store as well, for the moment in which it keeps a request for the next engine
(`open_briefly`). That leaves the mark and the note of an orderly stop as they were, so it does not look like a start.
An engine that opens meanwhile waits.

Follow a `commit`. One transaction: check and advance the batch number (the fence), apply the drops and puts
(`durable.backends.sql.writing`), commit. `wal` lengthens the log in advance, which halves the cost of an fsync on ext4.
Every tenth commit, and once a second, `filewatch` checks that the files are still the same.

What must hold:

- Exactly one connection writes and checkpoints. SQLite before 3.51.3 can corrupt a WAL file otherwise, and common
  Pythons bundle such versions. Every other connection is opened with mode=ro.
- Never open and close a file that this process has locked: closing any descriptor drops all POSIX locks on the file.
  `owner.unowned` guards the places that must open one.
- No bare error of SQLite leaves `store`. Damage is permanent (`StoreUnusable`); anything else may pass
  (`StorageUnavailable`).
- A refused open leaves the file and its directory unchanged.

Nothing here knows why rows are stored or read.

| file         | holds                                                                       |
|--------------|-----------------------------------------------------------------------------|
| `store`      | `SqliteBackend`: the connection, the transaction, the meaning of errors     |
| `opening`    | the settings of the connection, and how it is closed                        |
| `storefile`  | which paths can hold a store                                                |
| `owner`      | the locks, and the lock file, which names the owner and its socket          |
| `generation` | the number in the header that ties a log to its file                        |
| `filewatch`  | whether the files of the open store are still the same                      |
| `wal`        | the log, lengthened in advance                                              |
| `stepmark`   | which body runs right now, readable after a crash                           |
| `schema`     | the tables and their migrations                                             |
| `vacuum`     | returning free pages to the file system                                     |
| `copying`    | backups during operation                                                    |
| `readings`   | the questions of the engine, for the store that writes and for readers      |
| `reader`     | reading a store file beside a running engine                                |
"""

from durable.backends.sqlite.store import SqliteBackend

__all__ = [
    "SqliteBackend",
]
