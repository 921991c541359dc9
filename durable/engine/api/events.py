"""Events that no workflow has taken yet: `engine.events`."""

from __future__ import annotations

import builtins

import attrs

from durable.engine.api.arguments import _limit, _number
from durable.engine.api.way import Way, service_call
from durable.engine.operations import (
    ListEvents,
    RemoveEvent,
)
from durable.model.dead_letters import PendingEventInfo
from durable.model.ids import check_text


@attrs.frozen
class Events:
    """Events that no workflow has taken yet: sent to one that does not wait for them, or untargeted without a waiter.

    An event leaves this list when a workflow takes it, when it expires as its sender said, or when it has been kept for
    `event_retention` and becomes a dead letter.
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
    async def remove(self, event_id: int) -> None:
        """Remove a pending event, so that no workflow takes it. Raises `EventNotFound`."""
        await self._way.ask(RemoveEvent(_number("event_id", "id of an event", event_id)))
