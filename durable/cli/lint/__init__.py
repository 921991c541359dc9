"""Finds mistakes in workflow functions by reading them: `durable lint`. Never imports what it reads.

Follow one mistake, `late = datetime.now()` in a helper of a workflow. `files` turns the words on the command line into
files, and `findings` parses each into an `ast.Module`. `scopes` records which function binds which names, for example
that `datetime` comes from an import. `bodies` starts at the functions decorated with `@workflow` and follows calls: the
helper is yielded from, so it is a body too. The checks then walk each body. `checks_of_names` asks `meanings` what
`datetime.now` is, gets the full name `datetime.datetime.now`, and looks it up in `foreign`, which answers DUR001.
`findings` adds the place, drops findings with an ignore comment on their line, and `command` prints the others.

One rule decides all doubts: a lint that cries wolf is switched off. If `meanings` is not sure what an expression is, it
answers None, and no check says anything about None. So a variable has a meaning only if every binding of it has the
same one. The guards of the runner catch many of the mistakes that the lint misses.

What else must hold:

- Code that is checked is parsed and never imported. Code next to it is parsed to follow imports, but not checked.
- The names of durable are read off the annotations of the runner (`vocabulary`), so a new verb needs no change here.
- Codes are public: they appear in ignore comments of users. A code keeps its meaning.
- Each code has a bad and a good example, and the tests run both (`tests/cli/test_lint_codes.py`).

To add a check: add a `Rule` to `codes`, yield its code from a check, and add it to `docs/checks.md`.

| file                    | holds                                                             |
|-------------------------|-------------------------------------------------------------------|
| `codes`                 | the table of rules: code, title, reason, fix, examples            |
| `scopes`                | the names that each function binds                                |
| `meanings`              | what an expression is, across files                               |
| `neighbours`            | files beside those that are checked                               |
| `vocabulary`            | the names of durable, and what calling them returns               |
| `foreign`               | the names of other libraries that do not belong in a body         |
| `bodies`                | the functions that run inside workflows                           |
| `checks_of_names`       | clock, randomness, I/O, threads, environment, engine              |
| `checks_of_operations`  | operations that are dropped, misread or in the wrong place        |
| `checks_of_state`       | sets whose order shows, and global variables                      |
| `checks_of_definitions` | two definitions with one name                                     |
| `findings`              | all checks over all files, without ignored findings               |
| `files`, `command`      | the edge: paths in, text or JSON out                              |
"""
