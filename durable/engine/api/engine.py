"""`WorkflowEngine`: the façade. It checks what callers pass, builds an operation and submits it; nothing else."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

import attrs

from durable.backends.base import Backend
from durable.backends.url import open_store
from durable.engine.api.backup import back_up
from durable.engine.api.client import WorkflowClient
from durable.engine.api.core import OPEN_ALREADY, Core, Stage
from durable.engine.api.way import service_call
from durable.engine.config import EngineConfig
from durable.engine.host.task_group import Host, make_host
from durable.engine.operations import ReadRecovery, RecoverWorkflows
from durable.engine.operations.facts import Recovered
from durable.engine.operations.observers import Observer
from durable.engine.operations.views import RecoveryReport
from durable.errors import EngineClosed, OperationMisused, WrongType
from durable.model.clock import Clock, SystemClock
from durable.model.codec import Codec
from durable.model.ids import new_id
from durable.model.registry import Registry
from durable.runner.definitions import REGISTRY, WorkflowDef


class WorkflowEngine(WorkflowClient):
    """Runs workflows durably inside a service, under asyncio or trio.

        async with WorkflowEngine("orders.db") as engine:
            handle = await engine.start(checkout(order), id="order-42")
            receipt = await handle.result()

    Entering the block opens the store, continues what was running when the last engine stopped, and then accepts calls.
    Leaving it lets activities finish for `EngineConfig.drain` and frees the store. One engine owns a store at a time;
    it may be opened again after it was closed.

    `store` is a path, a URL (`memory://`) or a backend. `workflows` are the definitions that it may run, by default all
    that have been imported when the block is entered. `observers` are told what happens (`durable.telemetry`). `clock`
    and `new_id` are replaced in tests.

    Every method but `handle` is a coroutine, and what it changes is durable when it returns. Before the block is
    entered and after a shutdown it raises `EngineClosed`; when the store is lost, the error that the store raised.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | Backend,
        *,
        workflows: Iterable[WorkflowDef[..., Any]] | None = None,
        config: EngineConfig | None = None,
        clock: Clock | None = None,
        codec: Codec | None = None,
        new_id: Callable[[], str] = new_id,
        observers: Iterable[Observer] = (),
    ) -> None:
        self._core = Core(
            backend=open_store(store),
            registry=Registry(REGISTRY if workflows is None else _definitions(workflows)),
            codec=codec or Codec(),
            config=config or EngineConfig(),
            clock=clock or SystemClock(),
            new_id=new_id,
            observers=_observers(observers),
        )
        self._takes_all = workflows is None
        # What the last start found and did; None before the first.
        self.recovery: RecoveryReport | None = None
        self._host: Host | None = None
        self._ask_through(self._core)

    async def __aenter__(self) -> Self:
        self._core.check_closed()
        if self._host is not None:
            # Another task is opening it right now.
            raise OperationMisused(OPEN_ALREADY)
        if self._takes_all:
            # Includes workflows that were imported after this object was made.
            for definition in REGISTRY:
                self._core.registry.add(definition)
        self._host = make_host(self._core.close, self._core.hurry)
        try:
            tasks = await self._host.open()
            await self._core.open(tasks, self._host.is_cancelled)
            self.recovery = self._tell_recovery(await self._core.ask(ReadRecovery()))
            await self._core.serve(tasks)
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        host = self._host
        if host is None:
            return None
        if self._core.stage is Stage.FORKED:
            await host.abandon()
            return None
        host.check_leaving()
        try:
            return await host.leave(error)
        finally:
            if self._host is host:
                self._host = None

    @service_call
    async def recover(self) -> RecoveryReport:
        """Continue all running workflows and try the parked ones again; harmless when repeated.

        Entering the block has done this already. Call it when code that parked workflows need has been imported since.
        """
        report = await self._core.ask(RecoverWorkflows())
        while report.next_after is not None:
            report += await self._core.ask(RecoverWorkflows(report.next_after, report.until))
        return self._tell_recovery(report)

    def _tell_recovery(self, report: RecoveryReport) -> RecoveryReport:
        counts = attrs.asdict(report, filter=attrs.filters.exclude("next_after", "until"))
        self._core.tell(Recovered(at_us=self._core.clock.now(), text=str(report), **counts))
        return report

    @service_call
    async def backup(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Copy the store to a file while the engine works. Once this returns the copy is complete and opens as a store.

        It shows the store at one moment after the call began. Raises `StoreUnusable` for a path that already exists
        (unless `overwrite`) or cannot be written, `StorageUnavailable` if the copy fails, `EngineClosed` after a
        shutdown.
        """
        await back_up(self._core, path, overwrite=overwrite)

    async def close(self) -> None:
        """The same as `shutdown()`, so that an engine may be used where a client is expected."""
        await self.shutdown()

    @service_call
    async def shutdown(self, drain: timedelta | float | None = None) -> None:
        """Accept no more calls, let activities finish for `drain`, then close. Nothing acknowledged is lost.

        For a service that must stop before it leaves the block, on SIGTERM for example. An activity that is cut off
        runs again after the next start. Harmless when repeated; `shutdown(drain=0)` ends the drain of another
        call.
        """
        seconds = self._core.drain_seconds(drain)
        with contextlib.suppress(EngineClosed):
            self._core.check_open()
        if seconds == 0:
            self._core.hurry()
        await self._core.close(seconds)


def _definitions(workflows: Iterable[WorkflowDef[..., Any]]) -> list[WorkflowDef[Any, Any]]:
    definitions = list(workflows)
    for definition in definitions:
        if not isinstance(definition, WorkflowDef):
            raise WrongType("workflows", f"takes @workflow functions, not {definition!r}")
    return definitions


def _observers(observers: Iterable[Observer]) -> list[Observer]:
    checked = list(observers)
    for observer in checked:
        if not callable(getattr(observer, "observe", None)):
            raise WrongType("observers", f"takes objects with a method observe(fact), not {observer!r}")
    return checked
