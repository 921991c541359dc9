"""Questions to people are listed, answered and taken back."""

from __future__ import annotations

import attrs

from durable.engine.operations.base import Operation
from durable.errors import DurableError
from durable.model.records import OpenPause


@attrs.frozen(kw_only=True)
class ListPauses(Operation[list[OpenPause]]):
    """A page of open pauses, perhaps of one workflow, perhaps of those with one name."""

    is_list = True

    workflow_id: str | None = None
    name: str | None = None
    after: int
    limit: int


# The next two reply with a refusal instead of raising it: by then the workflow may have been loaded, and what follows
# from that is handled in any case.
@attrs.frozen
class ResumePause(Operation[DurableError | None]):
    """Give an open pause its answer, as JSON. The decision reads it as the type that the pause asks for."""

    workflow_id: str
    pause_id: str
    answer: str
    # The class of the value that was written, see `own_types`; None for plain JSON.
    written_as: str | None = None


@attrs.frozen
class CancelPause(Operation[DurableError | None]):
    """Raise `PauseCancelled` where a workflow has paused."""

    workflow_id: str
    pause_id: str
    reason: str | None = None
