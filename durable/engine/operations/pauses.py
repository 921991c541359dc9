"""Operations on pauses, the questions to people: list, answer, cancel."""

from __future__ import annotations

import attrs

from durable.engine.operations.base import Operation
from durable.errors import DurableError
from durable.model.homes import workflow_home
from durable.model.records import OpenPause


@attrs.frozen(kw_only=True)
class ListPauses(Operation[list[OpenPause]]):
    """A page of open pauses, optionally of one workflow or of the workflows with one name."""

    is_list = True

    workflow_id: str | None = None
    name: str | None = None
    after: int
    limit: int


# The next two return a refusal instead of raising it. The decision may have loaded the workflow by then, and the
# messages that follow from loading it must still be handled.
@attrs.frozen
class ResumePause(Operation[DurableError | None]):
    """Give an open pause its answer, as JSON. The decision reads it as the type that the pause asks for."""

    workflow_id: str
    pause_id: str
    answer: str
    # The class that the answer was written as, see `own_types`; None for plain JSON.
    written_as: str | None = None

    def home(self, shards: int) -> int | None:
        return workflow_home(self.workflow_id, shards)

    def reads(self) -> tuple[str | int, ...]:
        return (self.workflow_id,)


@attrs.frozen
class CancelPause(Operation[DurableError | None]):
    """Raise `PauseCancelled` where a workflow is paused."""

    workflow_id: str
    pause_id: str
    reason: str | None = None

    def home(self, shards: int) -> int | None:
        return workflow_home(self.workflow_id, shards)

    def reads(self) -> tuple[str | int, ...]:
        return (self.workflow_id,)
