"""What a workload asks of an engine. Each engine that is measured has a module in `bench.drivers` with this surface.

Only the standard library: the drivers of the peers run in environments of their own.
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
        """How it stores what it acknowledges, as asked of the running engine and not as read in its documentation."""
        ...

    @property
    def pids(self) -> Sequence[int]:
        """Its servers, if it has any: their CPU time counts as the engine's."""
        ...

    async def run(self, id: str, count: int) -> None:
        """Start a workflow of so many steps and wait for its result."""
        ...

    async def start_waiting(self, id: str) -> Any:
        """Start a workflow that waits for an event, and give its handle."""
        ...

    async def start_sleeping(self, id: str, seconds: float) -> Any:
        """Start a workflow that sleeps for so long, and give its handle."""
        ...

    async def settle(self, waiting: int) -> None:
        """Come back when so many workflows wait durably."""
        ...

    async def send(self, id: str) -> None:
        """Send its event to a workflow that waits."""
        ...

    async def result(self, handle: Any) -> None:
        """Wait for the end of a workflow."""
        ...

    def handle(self, id: str) -> Any:
        """The handle of a workflow that waits for an event and was started by an earlier process."""
        ...


def opened(job: Job) -> AbstractAsyncContextManager[Driver]:
    """The engine of this job's contender, on a store in its folder. The first word says which it is."""
    module = importlib.import_module(f"bench.drivers.{job.contender.split()[0]}")
    return cast(AbstractAsyncContextManager[Driver], module.opened(Path(job.folder)))
