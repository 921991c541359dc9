"""`WorkflowEngine`: the façade. It checks what callers pass, builds an operation and submits it; nothing else."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from durable.backends.base import Backend
from durable.backends.url import open_store
from durable.engine.api.backup import back_up
from durable.engine.api.core import OPEN_ALREADY, Core, Stage, service_call
from durable.engine.api.dead_letters import DeadLetters
from durable.engine.api.events import Events
from durable.engine.api.handle import WorkflowHandle, outcome_of
from durable.engine.api.pauses import Pauses
from durable.engine.api.runs import Runs
from durable.engine.api.schedules import Schedules
from durable.engine.config import EngineConfig
from durable.engine.host.task_group import Host, make_host
from durable.engine.operations import (
    CancelWorkflow,
    Delivered,
    FindWorkflow,
    Queued,
    ReadRecovery,
    RecoverWorkflows,
    SendEvent,
    StartWorkflow,
    TerminateWorkflow,
)
from durable.engine.operations.views import RecoveryReport
from durable.errors import EngineClosed, OperationMisused, WrongType
from durable.model.clock import Clock, SystemClock, from_duration
from durable.model.codec import Codec
from durable.model.ids import check_reason, check_text, new_id
from durable.model.records import WorkflowStatus
from durable.model.registry import Registry
from durable.runner.definitions import REGISTRY, WorkflowCall, WorkflowDef
from durable.runner.events import Event, event_key

_log = logging.getLogger("durable")
R = TypeVar("R")
T = TypeVar("T")


class WorkflowEngine:
    """Runs workflows durably inside a service, under asyncio or trio.

        async with WorkflowEngine("orders.db") as engine:
            handle = await engine.start(checkout(order), id="order-42")
            receipt = await handle.result()

    Entering the block opens the store, continues what was running when the last engine stopped, and then accepts calls.
    Leaving it lets activities finish for `EngineConfig.drain` and frees the store. One engine owns a store at a time;
    it may be opened again after it was closed.

    `store` is a path, a URL (`memory://`) or a backend. `workflows` are the definitions that it may run, by default all
    that have been imported when the block is entered. `clock` and `new_id` are replaced in tests.

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
    ) -> None:
        self._core = Core(
            backend=open_store(store),
            registry=Registry(REGISTRY if workflows is None else _definitions(workflows)),
            codec=codec or Codec(),
            config=config or EngineConfig(),
            clock=clock or SystemClock(),
            new_id=new_id,
        )
        self._takes_all = workflows is None
        # What the last start found and did; None before the first.
        self.recovery: RecoveryReport | None = None
        self._host: Host | None = None
        self.runs = Runs(self._core)
        self.pauses = Pauses(self._core)
        self.events = Events(self._core)
        self.dead_letters = DeadLetters(self._core)
        self.schedules = Schedules(self._core)

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
            await self._core.open(await self._host.open(), self._host.is_cancelled)
            self.recovery = _log_recovery(await self._core.ask(ReadRecovery()))
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
    async def start(
        self,
        call: WorkflowCall[R],
        *,
        id: str | None = None,
        delay: timedelta | float | None = None,
        tags: Iterable[str] | None = None,
    ) -> WorkflowHandle[R]:
        """Start a workflow; it is durable when this returns.

        Without an `id` it gets a random one. The same id with the same call starts nothing and returns the handle of
        the first start, so repeating a call is safe. `delay` is the time until the first step, `tags` are for searching
        with `runs.list`.

        Raises `WorkflowAlreadyExists` for another call, other tags or another delay under this id; `CodecError` or
        `PayloadTooLarge` for the arguments.
        """
        if not isinstance(call, WorkflowCall):
            raise WrongType("start", f"takes a call of a @workflow function, not {call!r}")
        call._used = True
        chosen_id = call.child_id if id is None else check_text("workflow id", id)
        definition: WorkflowDef[Any, Any] = call.definition
        coder = definition.coder(self._core.codec)
        coder.check(call.args, call.kwargs)
        text, arguments = coder.pack_call(call.args, call.kwargs)
        record = await self._core.ask(
            StartWorkflow(
                id=chosen_id or self._core.new_id(),
                name=definition.name,
                version=definition.version,
                input=text,
                definition=definition,
                arguments=arguments,
                delay=0 if delay is None else from_duration("start: delay", delay),
                tags=_tags(tags),
            )
        )
        return WorkflowHandle(self._core, record.id)

    @service_call
    async def send_event(
        self,
        event: Event[T],
        payload: T,
        *,
        to: str | None = None,
        key: str | None = None,
        event_id: str | None = None,
        allow_unstarted: bool = False,
    ) -> Delivered | Queued:
        """Send an event to one workflow, or untargeted; it is durable when this returns.

        With `to`, the workflow takes it now or when it waits for it. Without, the workflow that has waited longest for
        this event and `key` takes it; if there is none, it is kept for the first that does. `event_id` makes a repeated
        call count once. `allow_unstarted` keeps the event for an id that does not exist yet.

        Returns `Delivered` if it woke a workflow, else `Queued`. Raises `WorkflowNotFound`, `WorkflowTerminated`,
        `PendingEventsFull`, `EventConflict`, `CodecError`, and `EventTypeMismatch` if the workflow that would receive
        it waits for another type and cannot read this one.
        """
        if not isinstance(event, Event):
            raise WrongType("send_event", f"takes an Event, not {type(event).__name__}")
        text, _ = event.coder(self._core.codec).pack(payload)
        return await self._core.ask(
            SendEvent(
                name=event.name,
                event_key=event_key(key),
                payload=text,
                to=None if to is None else check_text("workflow id", to),
                allow_unstarted=allow_unstarted,
                consume=event.consume_on_read,
                expire_after=event.expire_after_us,
                event_id=None if event_id is None else check_text("event id", event_id),
                payload_type=event.payload_type,
            )
        )

    @overload
    def handle(self, id: str) -> WorkflowHandle[Any]: ...
    @overload
    def handle(self, id: str, wf: WorkflowDef[..., R]) -> WorkflowHandle[R]: ...
    def handle(self, id: str, wf: WorkflowDef[..., Any] | None = None) -> WorkflowHandle[Any]:
        """The handle of a workflow that was started before. Whether it exists shows when the handle is used.

        Pass the workflow function too, `handle("order-42", checkout)`, and the result has its type. If the id belongs
        to another workflow, using the handle raises `WrongWorkflow`.
        """
        if wf is not None and not isinstance(wf, WorkflowDef):
            raise WrongType("handle", f"wf must be a @workflow function, not {wf!r}")
        return WorkflowHandle(self._core, check_text("workflow id", id), wf)

    @service_call
    async def query_status(self, id: str) -> WorkflowStatus | None:
        """The status of a workflow, None if there is none with this id."""
        return await self.handle(id).status()

    @service_call
    async def query_result(self, id: str) -> Any:
        """A workflow's result if it has succeeded, else None, without waiting. `handle(id).result()` waits."""
        record = await self._core.ask(FindWorkflow(check_text("workflow id", id)))
        if record is None or record.status is not WorkflowStatus.SUCCEEDED:
            return None
        return outcome_of(self._core, record)

    @service_call
    async def cancel(self, id: str, reason: str | None = None) -> bool:
        """Ask a workflow to clean up and end. False if it has already ended.

        `Cancelled` is raised at its waits, its `finally` blocks and undos run, and it ends cancelled. This returns when
        the request is stored, not when the workflow has ended. It cannot be taken back.
        """
        return await self._core.ask(CancelWorkflow(check_text("workflow id", id), check_reason(reason)))

    @service_call
    async def terminate(self, id: str, reason: str | None = None) -> bool:
        """End a workflow at once, without its cleanup. False if it has already ended.

        The last resort, for a workflow that `cancel` cannot end: its `finally` blocks and undos do not run.
        """
        return await self._core.ask(TerminateWorkflow(check_text("workflow id", id), check_reason(reason)))

    @service_call
    async def recover(self) -> RecoveryReport:
        """Continue all running workflows and try the parked ones again; harmless when repeated.

        Entering the block has done this already. Call it when code that parked workflows need has been imported since.
        """
        report = await self._core.ask(RecoverWorkflows())
        while report.next_after is not None:
            report += await self._core.ask(RecoverWorkflows(report.next_after, report.until))
        return _log_recovery(report)

    @service_call
    async def backup(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Copy the store to a file while the engine works. Once this returns the copy is complete and opens as a store.

        It shows the store at one moment after the call began. Raises `StoreUnusable` for a path that already exists
        (unless `overwrite`) or cannot be written, `StorageUnavailable` if the copy fails, `EngineClosed` after a
        shutdown.
        """
        await back_up(self._core, path, overwrite=overwrite)

    @service_call
    async def shutdown(self, drain: timedelta | float | None = None) -> None:
        """Accept no more calls, let activities finish for `drain`, then close. Nothing acknowledged is lost.

        For a service that must stop before it leaves the block, on SIGTERM for example. An activity that is cut off
        runs again after the next start. Harmless when repeated; `shutdown(drain=0)` cuts the drain of another call short.
        """
        seconds = self._core.drain_seconds(drain)
        with contextlib.suppress(EngineClosed):
            self._core.check_open()
        await self._core.close(seconds)


def _definitions(workflows: Iterable[WorkflowDef[..., Any]]) -> list[WorkflowDef[Any, Any]]:
    definitions = list(workflows)
    for definition in definitions:
        if not isinstance(definition, WorkflowDef):
            raise WrongType("workflows", f"takes @workflow functions, not {definition!r}")
    return definitions


def _tags(tags: Iterable[str] | None) -> tuple[str, ...]:
    """The tags of a start as they are stored, each once. They are compared when the same id is started again."""
    if tags is None:
        return ()
    if isinstance(tags, str):
        raise WrongType("tags", "must be a list of strings, not a single string: tags=[...]")
    texts = dict.fromkeys(check_text("tag", tag) for tag in tags)
    # In the caller's order. A set is sorted, because its order differs from process to process.
    return tuple(sorted(texts) if isinstance(tags, (set, frozenset)) else texts)


def _log_recovery(report: RecoveryReport) -> RecoveryReport:
    """Log a report unless it is empty, and return it."""
    if report != RecoveryReport():
        _log.info("%s", report)
    return report
