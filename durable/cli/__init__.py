"""The command line, `python -m durable`. It is an edge: nothing imports it, and it needs click (`durable-engine[cli]`).

All commands are checks. None of them opens a store for writing, and none starts an engine, so they are safe to run
beside a service.

- `lint` reads source files and finds mistakes in workflow functions. It never imports what it reads.
- `check-replay` imports workflows and replays every unfinished run of a store against them. Its answer: which runs
  would be parked if this code were deployed?
- `export-histories` writes unfinished runs as JSON files, for a repository whose tests replay them.

Follow a `check-replay`. `app` parses the command. `loading` imports the modules that `--workflows` names; this is the
only place in the command line that imports code of the user. `replay` reads one workflow at a time, through
`StoreReader` or from JSON files, and hands it to `durable.runner.replaying.replay`, which is pure. Each workflow that
does not fit is written at once, so a store of any size needs little memory. The tally comes last.

Rules:

- Exit codes: 0 for nothing found, 1 for something found, 2 for input that cannot be used, 130 for an interrupt.
- Results go to stdout, everything else to stderr, including what imported modules print.
- A mistake of the user is one sentence (`click.UsageError`) and never a traceback.

| file      | holds                                                                |
|-----------|----------------------------------------------------------------------|
| `app`     | the group of commands, and the exit codes                            |
| `loading` | the values of `--workflows` and `--codec`, imported                  |
| `replay`  | `check-replay` and `export-histories`                                |
| `lint/`   | `lint`                                                               |
"""
