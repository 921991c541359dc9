"""Questions to people: `engine.pauses`."""

from __future__ import annotations

import builtins
from typing import Any

import attrs

from durable.engine.api.arguments import _limit, _number
from durable.engine.api.runs import _raise
from durable.engine.api.way import Way, service_call
from durable.engine.operations import (
    CancelPause,
    ListPauses,
    ResumePause,
)
from durable.model.ids import check_reason, check_text
from durable.model.records import OpenPause
from durable.model.shapes.own_types import write_own


@attrs.frozen
class Pauses:
    """Questions that workflows have put to people with `pause()`.

    An open pause is a row, so it can be listed and answered while its workflow is not in memory, and after restarts.
    Exactly one answer takes effect, however many people send one at the same time.
    """

    _way: Way

    @service_call
    async def list(
        self, *, workflow_id: str | None = None, name: str | None = None, limit: int = 100, after: int = 0
    ) -> builtins.list[OpenPause]:
        """Open pauses, oldest first: all, those of one workflow, or those of the workflows with a name.

        `after` is the number of the last one on the page before. Raises `WorkflowNotFound`.
        """
        return await self._way.ask(
            ListPauses(
                workflow_id=None if workflow_id is None else check_text("workflow id", workflow_id),
                name=None if name is None else check_text("name", name),
                after=_number("after", "number of a pause", after),
                limit=_limit(limit),
            )
        )

    @service_call
    async def resume(self, workflow_id: str, pause_id: str, answer: Any) -> None:
        """Answer a pause; the answer is durable when this returns. The first answer counts.

        Raises `PauseNotFound`, `PauseAlreadyAnswered`, `PauseExpired`, `PauseCancelled`, `WorkflowTerminated`,
        `WorkflowParked` or `WorkflowNotFound`. An answer of the wrong type raises `CodecError` or `PayloadTooLarge`,
        and the pause stays open.
        """
        place = check_text("workflow id", workflow_id), check_text("pause id", pause_id)
        # In the caller's task, not on the coordinator's thread: encoding runs code of the answer's class, and an error
        # or a delay there must hit this caller only.
        text = write_own(self._way.codec, answer, "pause: answer")
        _raise(await self._way.ask(ResumePause(*place, text, type(answer).__name__)))

    @service_call
    async def cancel(self, workflow_id: str, pause_id: str, reason: str | None = None) -> None:
        """Withdraw a question: `PauseCancelled` is raised where the workflow paused. Raises what `resume` raises."""
        place = check_text("workflow id", workflow_id), check_text("pause id", pause_id)
        _raise(await self._way.ask(CancelPause(*place, check_reason(reason))))
