"""durable: workflows that survive crashes, deploys and months of waiting.

A workflow is a plain generator function. What it does to the world is in activities, whose results are recorded; after
a crash the function runs again with the recorded results and continues where it stopped:

    @activity
    async def charge(order: Order) -> Payment: ...

    @workflow
    def checkout(order: Order) -> Durable[Receipt]:
        payment = yield from charge(order)
        approved = yield from approval.wait()
        return Receipt(payment, approved.by)

    async with WorkflowEngine("orders.db") as engine:
        handle = await engine.start(checkout(order), id="order-42")
        receipt = await handle.result()

The public names are those in `durable.public`, and the documented ones of `durable.backends`, `durable.testing` and
`durable.telemetry`. Everything else may move or change at any time.

From here, the code is in rooms, each with an essay at the head of its package. Read them in this order: `model` (values
that all share), `runner` (bodies and replay), `engine` (`operations`, `state`, `decide`, `repair`, `coordinator`,
`host`, `remote`, `api`), `backends` (stores). Imports go in this direction only.

| you want to know | package |
|---|---|
| what workflow code may write, and how it is replayed | `durable.runner` |
| what a service may call | `durable.engine.api` |
| what happens to a call until it is durable | `durable.engine.coordinator`, `durable.engine.decide` |
| how activities run | `durable.engine.host` |
| how something is stored | `durable.backends` |
| why something was refused | `durable.errors` |
"""

import importlib
from typing import TYPE_CHECKING

from durable.model.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from durable.public import *  # noqa: F403
    from durable.public import __all__ as __all__
else:

    def __getattr__(name: str) -> object:
        """The public name. The first use of any of them loads all, so the command line does not load what it leaves."""
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module 'durable' has no attribute {name!r}")
        public = importlib.import_module("durable.public")
        names = globals()
        names.update({each: getattr(public, each) for each in public.__all__}, __all__=[*public.__all__, "__version__"])
        try:
            return names[name]
        except KeyError:
            raise AttributeError(f"module 'durable' has no attribute {name!r}") from None
