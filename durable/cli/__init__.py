"""The command line, `durable`. It is an edge: nothing imports it, and it needs click and rich (`durable-engine[cli]`).

Follow `durable ps status:failed`. `app` finds the command in its table of contents and imports only its module. `store`
says which store is meant and refuses one that does not exist or may not be read; `client` opens it. `filters` turns
words into filters, `runs` (or `quick`, from the file itself) reads the pages, and `output` writes a table, JSON or ids,
as the other end can show them. Whatever is raised on the way becomes one sentence and an exit code, by the table in
`exits`.

What must hold:

- A store that does not exist is never created, and looking changes nothing.
- Results go to stdout, everything else to stderr. JSON is never cut; a table is cut only on a terminal.
- Texts from a store are data: `visible` takes the control characters out before they reach a terminal.
- What destroys something on more than one run asks, or needs `--yes`.
- A mistake of the user is one sentence that says what to write, and never a traceback. Passwords in URLs are hidden.
- A command starts at once. So a module imports at its top only what its command needs, and nothing imports rich but
  `live`, which is for screens that are drawn again and again.

The layers, from the outside in: commands (one file per noun) know click and the client. What they show is made by pure
functions of values, a screen and the present time (`card`, `timeline`, `words`, `output`, `doctor.checks`), which are
tested with values.

| file                             | holds                                                                     |
|----------------------------------|---------------------------------------------------------------------------|
| `app`, `exits`                   | the table of contents; exit codes, and the table from errors to them      |
| `store`, `client`                | which store, and the way to it                                            |
| `inputs`, `filters`              | what people pass: payloads, ids, filters                                  |
| `output`, `words`, `live`        | tables, JSON, durations; screens that are drawn again                     |
| `runs`, `ps`, `top`, `tail`      | runs as lists                                                             |
| `quick`                          | `ps` from the file, without a client                                      |
| `show`, `card`, `timeline`       | one run: the facts, and the picture of its steps                          |
| `start`, `result`, `changes`     | one run: its begin, its end, and what an operator does in between         |
| `events`, `dead_letters`         | events on their way, and those that nobody takes                          |
| `pauses`, `schedules`            | questions to people; workflows that start again and again                 |
| `files`, `doctor/`               | the store as a file; what is wrong with it                                |
| `worker`, `notify`               | an engine as a process, and what its supervisor is told                   |
| `lint/`, `replay`, `loading`     | checks before a deploy, and importing code of the user                    |
| `completion`                     | what Tab offers                                                           |
"""
