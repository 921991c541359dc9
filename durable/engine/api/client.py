"""`WorkflowClient`: the calls that start, feed, query and end workflows, from any process that reaches the store.

A call checks what the caller passes, builds an operation and asks; nothing else. `WorkflowEngine` is the subclass that
also runs workflows: it asks its own coordinator. `remote.client_way` says how a client asks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import timedelta
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload

from durable.backends.base import Backend, SharedStore
from durable.backends.url import open_store
from durable.engine.api.dead_letters import DeadLetters
from durable.engine.api.events import Events
from durable.engine.api.handle import WorkflowHandle, outcome_of
from durable.engine.api.pauses import Pauses
from durable.engine.api.refs import RefCall, WorkflowRef, pack
from durable.engine.api.runs import Runs
from durable.engine.api.schedules import Schedules
from durable.engine.api.way import Way, service_call
from durable.engine.operations import (
    CancelWorkflow,
    Delivered,
    FindWorkflow,
    Queued,
    SendEvent,
    StartWorkflow,
    TerminateWorkflow,
)
from durable.engine.remote.client_way import ClientWay
from durable.errors import InvalidValue, StoreUnusable, WrongType
from durable.model.clock import SECOND, Clock, SystemClock, from_duration
from durable.model.codec import Codec
from durable.model.ids import check_reason, check_text, new_id
from durable.model.records import WorkflowStatus
from durable.runner.definitions import WorkflowCall, WorkflowDef
from durable.runner.events import Event, event_key

R = TypeVar("R")
T = TypeVar("T")


class WorkflowClient:
    """Asks the engine of a store from another process, under asyncio or trio. It runs nothing and needs no code.

        async with WorkflowClient("orders.db") as client:
            handle = await client.start(checkout(order), id="order-42")
            receipt = await handle.result()

    It opens on first use, opens again after a fork, and has the calls and groups of the engine except those that run
    one. `store` is the path or URL of a store in a file. `timeout` bounds connecting and answering, but never the wait
    for a result or a change: then a call raises `EngineUnreachable`, and its outcome is unknown.

    Without an engine, reads are answered from the file. With `no_engine="keep"`, starts and events are kept for the
    next engine; with "refuse" they raise `EngineNotRunning`, as everything else does that needs one.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | Backend,
        *,
        timeout: timedelta | float = 30,
        no_engine: Literal["keep", "refuse"] = "keep",
        clock: Clock | None = None,
        codec: Codec | None = None,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        if no_engine not in ("keep", "refuse"):
            raise InvalidValue("no_engine", f"must be 'keep' or 'refuse', not {no_engine!r}")
        backend = open_store(store)
        if not isinstance(backend, SharedStore):
            raise StoreUnusable(repr(backend), "only its own process can reach it: pass the engine instead of a client")
        self._client_way = ClientWay(
            store=backend,
            codec=codec or Codec(),
            clock=clock or SystemClock(),
            new_id=new_id,
            timeout=from_duration("timeout", timeout) / SECOND,
            keeps=no_engine == "keep",
        )
        self._ask_through(self._client_way)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        await self.close()
        return None

    async def close(self) -> None:
        """Let go of what was opened. Harmless when repeated; a client opens again when it is used."""
        await self._client_way.aclose()

    def _ask_through(self, way: Way) -> None:
        """Make every call and group ask this way."""
        self._way = way
        self.runs = Runs(way)
        self.pauses = Pauses(way)
        self.events = Events(way)
        self.dead_letters = DeadLetters(way)
        self.schedules = Schedules(way)

    @service_call
    async def start(
        self,
        call: WorkflowCall[R] | RefCall[R],
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
        packed = pack(self._way, call, "start")
        named = call.child_id if isinstance(call, WorkflowCall) else None
        chosen_id = named if id is None else check_text("workflow id", id)
        record = await self._way.ask(
            StartWorkflow(
                id=chosen_id or self._way.new_id(),
                name=packed.name,
                version=packed.version,
                input=packed.input,
                definition=packed.definition,
                arguments=packed.arguments,
                delay=0 if delay is None else from_duration("start: delay", delay),
                tags=_tags(tags),
            )
        )
        return WorkflowHandle(self._way, record.id, call.definition if isinstance(call, WorkflowCall) else call.ref)

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
        text, _ = event.coder(self._way.codec).pack(payload)
        return await self._way.ask(
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
    def handle(self, id: str, wf: WorkflowDef[..., R] | WorkflowRef[R]) -> WorkflowHandle[R]: ...
    def handle(self, id: str, wf: WorkflowDef[..., Any] | WorkflowRef[Any] | None = None) -> WorkflowHandle[Any]:
        """The handle of a workflow that was started before. Whether it exists shows when the handle is used.

        Pass the workflow function or a `WorkflowRef` too, `handle("order-42", checkout)`, and the result has its type.
        If the id belongs to another workflow, using the handle raises `WrongWorkflow`.
        """
        if wf is not None and not isinstance(wf, (WorkflowDef, WorkflowRef)):
            raise WrongType("handle", f"wf must be a @workflow function or a WorkflowRef, not {wf!r}")
        return WorkflowHandle(self._way, check_text("workflow id", id), wf, must_check=wf is not None)

    @service_call
    async def query_status(self, id: str) -> WorkflowStatus | None:
        """The status of a workflow, None if there is none with this id."""
        return await self.handle(id).status()

    @service_call
    async def query_result(self, id: str) -> Any:
        """A workflow's result if it has succeeded, else None, without waiting. `handle(id).result()` waits."""
        record = await self._way.ask(FindWorkflow(check_text("workflow id", id)))
        if record is None or record.status is not WorkflowStatus.SUCCEEDED:
            return None
        return outcome_of(self._way, record)

    @service_call
    async def cancel(self, id: str, reason: str | None = None) -> bool:
        """Ask a workflow to clean up and end. False if it has already ended.

        `Cancelled` is raised at its waits, its `finally` blocks and undos run, and it ends cancelled. This returns when
        the request is stored, not when the workflow has ended. It cannot be taken back.
        """
        return await self._way.ask(CancelWorkflow(check_text("workflow id", id), check_reason(reason)))

    @service_call
    async def terminate(self, id: str, reason: str | None = None) -> bool:
        """End a workflow at once, without its cleanup. False if it has already ended.

        The last resort, for a workflow that `cancel` cannot end: its `finally` blocks and undos do not run.
        """
        return await self._way.ask(TerminateWorkflow(check_text("workflow id", id), check_reason(reason)))


def _tags(tags: Iterable[str] | None) -> tuple[str, ...]:
    """The tags of a start as they are stored, each once. They are compared when the same id is started again."""
    if tags is None:
        return ()
    if isinstance(tags, str):
        raise WrongType("tags", "must be a list of strings, not a single string: tags=[...]")
    texts = dict.fromkeys(check_text("tag", tag) for tag in tags)
    # In the caller's order. A set is sorted, because its order differs from process to process.
    return tuple(sorted(texts) if isinstance(tags, (set, frozenset)) else texts)
