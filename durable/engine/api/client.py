"""`WorkflowClient`: the calls that start, feed, query and end workflows, from any process that reaches the store.

A call checks what the caller passes, builds an operation and asks; nothing else. `WorkflowEngine` is the subclass that
also runs workflows: it asks its own coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, TypeVar, overload

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
from durable.errors import WrongType
from durable.model.clock import from_duration
from durable.model.ids import check_reason, check_text
from durable.model.records import WorkflowStatus
from durable.runner.definitions import WorkflowCall, WorkflowDef
from durable.runner.events import Event, event_key

R = TypeVar("R")
T = TypeVar("T")


class WorkflowClient:
    """Asks the engine of a store, and runs nothing itself."""

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
