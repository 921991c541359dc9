"""The public test kit: helpers for tests of workflows, engines and stores.

To test a workflow, run a real engine in memory and move its clock by hand:

    async with WorkflowEngine("memory://", clock=clock) as engine:
        handle = await engine.start(reminder())
        clock.advance(timedelta(days=3))
        assert await handle.result() == "reminded"

To test a deploy, replay the histories of running workflows against the new code. `export_histories` reads them from a
store file, `save_histories` and `load_histories` keep them as JSON in a repository, and `check_replay` reports which
workflows the new code would park, with the line:

    report = check_replay(load_histories("tests/histories"))
    assert report.ok, report

To test a store of your own, run the checks of `conformance` on it. To test what happens when a store fails, wrap one in
`faults.FaultyBackend`.

This package may import all of durable except the edges, and nothing in durable imports it. It does not import pytest,
so it works with any test runner.

| you want | file |
|---|---|
| time that a test controls | `clock` |
| to know whether new code fits old histories | `replay` |
| a store that fails at a chosen commit or call | `faults` |
| to know whether a backend keeps the contract | `conformance` |
"""

from durable.backends.histories import load_histories, save_histories
from durable.backends.sqlite.reader import export_histories
from durable.model.records import WorkflowHistory
from durable.runner.replaying import Fit, ReplayResult
from durable.testing.clock import ManualClock
from durable.testing.replay import ReplayReport, check_replay

__all__ = [
    "Fit",
    "ManualClock",
    "ReplayReport",
    "ReplayResult",
    "WorkflowHistory",
    "check_replay",
    "export_histories",
    "load_histories",
    "save_histories",
]
