"""Events that no workflow will take: `engine.dead_letters`."""

from __future__ import annotations

import builtins

import attrs

from durable.engine.api.arguments import _letter_id, _limit
from durable.engine.api.way import Way, service_call
from durable.engine.operations import (
    Delivered,
    ListLetters,
    Queued,
    RemoveLetter,
    ReplayLetter,
)
from durable.model.dead_letters import DeadLetter
from durable.model.ids import check_text


@attrs.frozen
class DeadLetters:
    """Events that no workflow took; `DeadLetter.reason` says why.

    A dead letter stays until it is replayed, removed, or older than `dead_letter_retention`.
    """

    _way: Way

    @service_call
    async def list(self, *, limit: int = 100, after: int = 0) -> builtins.list[DeadLetter]:
        """Dead letters, oldest first. `after` is the id of the last one on the page before."""
        return await self._way.ask(ListLetters(_letter_id("after", after), _limit(limit)))

    @service_call
    async def replay(self, letter_id: int, to: str | None = None) -> Delivered | Queued:
        """Send a dead letter again: to one workflow, or untargeted; a broadcast is broadcast again.

        The letter is removed once the event is accepted. Raises `DeadLetterNotFound`, and what `send_event` raises.
        """
        target = None if to is None else check_text("workflow id", to)
        return await self._way.ask(ReplayLetter(_letter_id("letter_id", letter_id), target))

    @service_call
    async def remove(self, letter_id: int) -> None:
        """Delete a dead letter. Raises `DeadLetterNotFound`."""
        await self._way.ask(RemoveLetter(_letter_id("letter_id", letter_id)))
