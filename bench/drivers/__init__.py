"""The engines that are measured, each behind the same surface: the protocol `bench.driver.Driver`.

A module here is named after its engine. It defines three workflows as plainly as that engine allows (some steps, a wait
for an event, a sleep), a driver class, and `opened(folder)`, an async context manager that yields the driver on a store
in that folder. Every engine runs with its defaults; `Driver.settings` reports how it really stores what it
acknowledges, because a comparison with an engine that does not sync to disk would be worthless.

The modules of the peers are imported only in the peers' own environments, so mypy and the tests do not need the peers.

| file | what it is |
|---|---|
| `durable`, `dbos`, `edda`, `restate` | the drivers |
| `restate_service` | the process that Restate's server calls |
| `loopback` | a cheap HTTP client for Restate's server |
| `pragmas` | reads the SQLite settings of a peer that uses SQLAlchemy |
"""
