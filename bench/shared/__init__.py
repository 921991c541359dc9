"""Several processes behind HTTP on one store, whose owner is killed again and again: what do the clients see?

`python -m bench.shared.drive --kills 50` starts `site` in four processes of uvicorn (extra `bench`), orders over HTTP
without a pause, kills the owner of the store with SIGKILL, and counts: every accepted order must have happened exactly
once, and no answer may be an error. It prints how long a client ever waited. `site` is the service; it knows nothing of
the drive. Times depend on the machine, so this is no test; `tests/shared` has the tests.
"""
