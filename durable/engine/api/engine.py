"""`WorkflowEngine`: the façade. It checks what callers pass, builds an operation and submits it; nothing else."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

import attrs

from durable.backends.base import Backend, SharedStore
from durable.backends.url import open_store
from durable.engine.api.backup import back_up
from durable.engine.api.client import WorkflowClient
from durable.engine.api.core import OPEN_ALREADY, Core, Stage, drain_seconds
from durable.engine.api.standby import Standby
from durable.engine.api.way import service_call
from durable.engine.config import EngineConfig
from durable.engine.host.task_group import Host, make_host
from durable.engine.operations import ReadRecovery, RecoverWorkflows
from durable.engine.operations.facts import Recovered
from durable.engine.operations.observers import Observer
from durable.engine.operations.views import RecoveryReport
from durable.errors import EngineClosed, InvalidValue, OperationMisused, StoreUnusable, WrongType
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

    With `shared=True`, several processes of one service may open the same store file, as with `uvicorn --workers 4`.
    One of them owns it and runs the workflows and activities. The others stand by: every call works there too, and goes
    to the owner. When the owner ends or is killed, one of them takes over. A call under way is delayed, not lost, and
    takes effect once. If nobody can be asked for 30 seconds, it raises `EngineUnreachable`.

    Every method but `handle` is a coroutine, and what it changes is durable when it returns. Before the block is
    entered and after a shutdown it raises `EngineClosed`; when the store is lost, the error that the store raised.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | Backend,
        *,
        workflows: Iterable[WorkflowDef[..., Any]] | None = None,
        config: EngineConfig | None = None,
        shared: bool = False,
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
            is_shared=shared,
        )
        self._standby = _standby(self._core, self._own) if shared else None
        self._takes_all = workflows is None
        # What the last start in this process found and did; None before the first, and while it has only stood by.
        self.recovery: RecoveryReport | None = None
        self._host: Host | None = None
        self._ask_through(self._standby or self._core)

    @property
    def is_owner(self) -> bool:
        """Whether this process owns the store and runs its workflows: while the engine is open, unless it stands by."""
        return self._core.stage is Stage.OPEN

    async def __aenter__(self) -> Self:
        self._core.check_closed()
        if self._host is not None:
            # Another task is opening it right now.
            raise OperationMisused(OPEN_ALREADY)
        if self._takes_all:
            # Includes workflows that were imported after this object was made.
            for definition in REGISTRY:
                self._core.registry.add(definition)
        self._host = make_host((self._standby or self._core).close, self._core.hurry)
        try:
            self._tasks = await self._host.open()
            await (self._own() if self._standby is None else self._standby.open(self._tasks))
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def _own(self) -> None:
        """Open the store in this process, recover, and let other processes ask."""
        assert self._host is not None, "the block has been entered"
        await self._core.open(self._tasks, self._host.is_cancelled)
        self.recovery = self._tell_recovery(await self._core.ask(ReadRecovery()))
        await self._core.serve(self._tasks)

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
        A process that stands by runs no workflows: there it does nothing, and the report is empty.
        """
        if self._standby is not None and self._standby.is_following():
            return RecoveryReport()
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
        await back_up(self._standby or self._core, self._core.backend, path, overwrite=overwrite)

    async def close(self) -> None:
        """The same as `shutdown()`, so that an engine may be used where a client is expected."""
        await self.shutdown()

    @service_call
    async def shutdown(self, drain: timedelta | float | None = None) -> None:
        """Accept no more calls, let activities finish for `drain`, then close. Nothing acknowledged is lost.

        For a service that must stop before it leaves the block, on SIGTERM for example. An activity that is cut off
        runs again after the next start. Harmless when repeated; `shutdown(drain=0)` ends the drain of another call.

        With `shared=True`, another process takes over once the activities here have finished; until then this one still
        answers the others. A process that stands by has nothing to wait for.
        """
        seconds = drain_seconds(self._core.config, drain)
        life = self._standby or self._core
        with contextlib.suppress(EngineClosed):
            life.check_open()
        if seconds == 0:
            self._core.hurry()
        await life.close(seconds)


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


def _standby(core: Core, own: Callable[[], Awaitable[None]]) -> Standby:
    """The way of a shared engine. Raises `StoreUnusable` or `InvalidValue` if no other process could ask it."""
    if not isinstance(core.backend, SharedStore):
        raise StoreUnusable(repr(core.backend), "shared=True needs a store in a file: processes share no other one")
    if not core.config.control:
        raise InvalidValue("shared", "needs the socket that EngineConfig(control=False) switches off")
    return Standby(core.backend, core, own)
