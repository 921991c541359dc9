"""What a service sees of a workflow while it runs: updates, and the iterator that brings them.

Each update is one operation, `AwaitChange`, which the coordinator answers when the workflow differs from what the
consumer saw last. So a consumer that leaves early needs no cleanup, and a slow one skips to the latest change and never
misses the end.
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
    """The status and progress of a workflow at one moment. All of it was stored by then."""

    workflow_id: str
    status: WorkflowStatus
    # The last value it published, None if it has published nothing.
    progress: T_co | None
    at: datetime


def read_progress(codec: Codec, id: str, text: str | None, type: Any) -> Any:
    """The value that a workflow published, from its JSON. Raises `CodecError` if it does not fit the type."""
    return None if text is None else codec.coder(type, f"progress of workflow {id!r}").unpack(text)


class Watch(Generic[T_co]):
    """An async iterator over the changes of one workflow: first its status now, last its end."""

    def __init__(self, id: str, ask: Callable[[Sight | None], Awaitable[Sight]], codec: Codec, type: Any) -> None:
        self._id = id
        self._ask = ask
        self._codec = codec
        self._type = type
        self._seen: Sight | None = None

    async def next(self) -> WorkflowUpdate[T_co] | None:
        """Wait for the next change; None after the end."""
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
