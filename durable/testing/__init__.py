"""The public test kit: what helps to test workflows, engines and stores.

`check_replay` says which workflows the code at hand would park, `conformance` what a store must do; `faults` makes one
fail on purpose, `simulation` runs engines from a seed. `ManualClock` stands still until a test moves it. Imports no
pytest; nothing in durable imports this.
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
