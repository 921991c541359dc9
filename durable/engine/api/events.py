"""Events that no workflow has taken yet, and events that are sent by name: `engine.events`."""

from __future__ import annotations

import builtins
from typing import Any

import attrs

from durable.engine.api.arguments import _limit, _number
from durable.engine.api.way import Way, service_call
from durable.engine.operations import Delivered, ListEvents, Queued, RemoveEvent, SendEvent
from durable.model.dead_letters import PendingEventInfo
from durable.model.ids import check_text
from durable.runner.events import Event, event_key


@attrs.frozen
class Events:
    """Events that no workflow has taken yet: sent to one that does not wait for them, or untargeted without a waiter.

    An event leaves this list when a workflow takes it, when it expires as its sender said, or when it has been kept for
    `event_retention` and becomes a dead letter. `send` sends an event by its name.
    """

    _way: Way

    @service_call
    async def list(
        self, *, name: str | None = None, to: str | None = None, limit: int = 100, after: int = 0
    ) -> builtins.list[PendingEventInfo]:
        """Pending events, oldest first: all, those with a name, or those sent to a workflow, started or not.

        `after` is the id of the last one on the page before.
        """
        return await self._way.ask(
            ListEvents(
                name=None if name is None else check_text("name", name),
                to=None if to is None else check_text("workflow id", to),
                after=_number("after", "id of an event", after),
                limit=_limit(limit),
            )
        )

    @service_call
    async def send(
        self,
        name: str,
        payload: Any = None,
        *,
        to: str | None = None,
        key: str | None = None,
        event_id: str | None = None,
        allow_unstarted: bool = False,
        force: bool = False,
    ) -> Delivered | Queued:
        """Send an event by its name, where its `Event` is not at hand; otherwise like `send_event` of the engine.

        The payload is plain JSON data. It is checked and delivered as the `Event` says that the engine has under this
        name. Without one this raises `UnknownEvent`; with `force` the event is sent for one taker, and never expires.
        """
        event = Event[Any](name)
        text, _ = event.coder(self._way.codec).pack(payload)
        operation = SendEvent(
            name=event.name,
            event_key=event_key(key),
            payload=text,
            to=None if to is None else check_text("workflow id", to),
            allow_unstarted=allow_unstarted,
            event_id=None if event_id is None else check_text("event id", event_id),
            by_name=True,
            force=force,
        )
        return await self._way.ask(self._way.settled(operation))

    @service_call
    async def remove(self, event_id: int) -> None:
        """Remove a pending event, so that no workflow takes it. Raises `EventNotFound`."""
        await self._way.ask(RemoveEvent(_number("event_id", "id of an event", event_id)))
