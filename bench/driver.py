"""What a workload asks of an engine. Each measured engine has a module in `bench.drivers` with a driver and `opened`.

Only the standard library: the drivers of the peers run in separate environments.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol, cast

from bench.job import Job


class Driver(Protocol):
    """An open engine."""

    @property
    def settings(self) -> str:
        """How it stores what it acknowledges, as the running engine reports it, not as its documentation says."""
        ...

    @property
    def pids(self) -> Sequence[int]:
        """The process ids of its servers, if it has any. Their CPU time counts as the engine's."""
        ...

    async def run(self, id: str, count: int) -> None:
        """Start a workflow of `count` steps and wait for its result."""
        ...

    async def start_waiting(self, id: str) -> Any:
        """Start a workflow that waits for an event, and return its handle."""
        ...

    async def start_sleeping(self, id: str, seconds: float) -> Any:
        """Start a workflow that sleeps for `seconds`, and return its handle."""
        ...

    async def settle(self, waiting: int) -> None:
        """Return when `waiting` workflows wait durably."""
        ...

    async def send(self, id: str) -> None:
        """Send its event to a waiting workflow."""
        ...

    async def result(self, handle: Any) -> None:
        """Wait for the end of a workflow."""
        ...

    def handle(self, id: str) -> Any:
        """The handle of a waiting workflow that an earlier process started."""
        ...


def opened(job: Job) -> AbstractAsyncContextManager[Driver]:
    """The engine of this job's contender, on a store in its folder. The contender's first word names the driver."""
    module = importlib.import_module(f"bench.drivers.{job.contender.split()[0]}")
    return cast(AbstractAsyncContextManager[Driver], module.opened(Path(job.folder)))
