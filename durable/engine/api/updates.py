"""What a service sees of a workflow while it runs: updates, and the iterator that brings them.

Every update is a question of its own to the coordinator, which answers when there is something new. So there is nothing
to clean up when a consumer leaves early, and a slow one gets the latest and never misses the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Generic, Self, TypeVar

import attrs

from durable.engine.operations import Sight
from durable.model.clock import to_datetime
from durable.model.codec import Codec
from durable.model.records import WorkflowStatus

T_co = TypeVar("T_co", covariant=True)


@attrs.frozen(kw_only=True)
class WorkflowUpdate(Generic[T_co]):
    """How a workflow stood at a moment: everything here was stored by then."""

    workflow_id: str
    status: WorkflowStatus
    # What it has published last, None if nothing yet.
    progress: T_co | None
    at: datetime


def read_progress(codec: Codec, id: str, text: str | None, type: Any) -> Any:
    """The value that a workflow has published. Raises `CodecError` if it does not fit the type."""
    return None if text is None else codec.coder(type, f"progress of workflow {id!r}").unpack(text)


class Watch(Generic[T_co]):
    """The changes of one workflow, first how it stands now, last its end. An async iterator."""

    def __init__(self, id: str, ask: Callable[[Sight | None], Awaitable[Sight]], codec: Codec, type: Any) -> None:
        self._id = id
        self._ask = ask
        self._codec = codec
        self._type = type
        self._seen: Sight | None = None

    async def next(self) -> WorkflowUpdate[T_co] | None:
        """The next change, once there is one; None after the end."""
        if self._seen is not None and self._seen.status.is_terminal:
            return None
        self._seen = seen = await self._ask(self._seen)
        return WorkflowUpdate(
            workflow_id=self._id,
            status=seen.status,
            progress=read_progress(self._codec, self._id, seen.progress, self._type),
            at=to_datetime(seen.at),
        )

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WorkflowUpdate[T_co]:
        update = await self.next()
        if update is None:
            raise StopAsyncIteration
        return update
