"""What an operator does with workflows: `engine.runs`."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import attrs

from durable.backends.base import Workflows
from durable.engine.api.arguments import _limit
from durable.engine.api.core import Core, service_call
from durable.engine.api.handle import WorkflowHandle
from durable.engine.operations import (
    CountWorkflows,
    DescribeWorkflow,
    ForkWorkflow,
    ListWorkflows,
    PurgeWorkflows,
    ReadHistory,
    RepairWorkflow,
    RetryWorkflow,
)
from durable.engine.operations.views import Description, WorkflowSummary
from durable.errors import DurableError, WrongType
from durable.model.clock import from_datetime, from_duration
from durable.model.ids import check_text
from durable.model.records import HistoryEntry, WorkflowStatus
from durable.model.shapes.own_types import write_own

Statuses = WorkflowStatus | Iterable[WorkflowStatus] | None


def _query(status: Statuses, name: str | None, tag: str | None, since: datetime | None, limit: int) -> Workflows:
    statuses = (status,) if isinstance(status, WorkflowStatus) else tuple(status or ())
    if not all(isinstance(one, WorkflowStatus) for one in statuses):
        raise WrongType("status", "must be a WorkflowStatus or several of them")
    return Workflows(
        statuses=statuses,
        name=None if name is None else check_text("name", name),
        tag=None if tag is None else check_text("tag", tag),
        created_since=None if since is None else from_datetime("since", since),
        as_shown=True,
        newest_first=True,
        limit=limit,
    )


@attrs.frozen
class Runs:
    """The workflows of an engine."""

    _core: Core

    @service_call
    async def list(
        self,
        *,
        status: Statuses = None,
        name: str | None = None,
        tag: str | None = None,
        since: datetime | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> builtins.list[WorkflowSummary]:
        """Workflows, newest first. `after` is the id of the last one of the page before."""
        query = _query(status, name, tag, since, _limit(limit))
        page = await self._core.ask(ListWorkflows(query, None if after is None else check_text("after", after)))
        return [WorkflowSummary.of(one.record, one.background.parent_id, one.background.progress) for one in page]

    @service_call
    async def count(
        self,
        *,
        status: Statuses = None,
        name: str | None = None,
        tag: str | None = None,
        since: datetime | None = None,
    ) -> int:
        """How many workflows fit."""
        return await self._core.ask(CountWorkflows(_query(status, name, tag, since, 1)))

    @service_call
    async def history(self, id: str) -> builtins.list[HistoryEntry]:
        """Everything a workflow has learnt in this round, in order. Raises `WorkflowNotFound`."""
        return await self._core.ask(ReadHistory(check_text("workflow id", id)))

    @service_call
    async def describe(self, id: str) -> Description:
        """What a workflow waits for, since when, which attempt, until when, and where in its source.

        Looking changes nothing: a workflow whose code is missing stays as it is, and `problem` says what is missing.
        Raises `WorkflowNotFound`.
        """
        description = await self._core.ask(DescribeWorkflow(check_text("workflow id", id)))
        running = self._core.running_positions(description.key, description.round)
        if not running:
            return description
        waits = [attrs.evolve(wait, is_running=wait.position in running) for wait in description.waits]
        return attrs.evolve(description, waits=tuple(waits))

    @service_call
    async def retry(self, id: str) -> WorkflowHandle[Any]:
        """Let a failed or parked workflow go on from there: the step that failed begins anew.

        Children that failed, or were stopped with it, go on too. Raises `WorkflowNotFound`, or `CannotRetry`, which
        says what to do instead.
        """
        _raise(await self._core.ask(RetryWorkflow(check_text("workflow id", id))))
        return WorkflowHandle(self._core, id)

    @service_call
    async def fork(self, id: str, from_position: str, *, new_id: str | None = None) -> WorkflowHandle[Any]:
        """Start a new workflow that knows all that this one had recorded before a position, and goes on from there.

        The first one is left as it is. Raises `WorkflowNotFound`, `CannotFork`, `WorkflowAlreadyExists`.
        """
        given = self._core.new_id() if new_id is None else check_text("workflow id", new_id)
        position = check_text("from_position", from_position)
        _raise(await self._core.ask(ForkWorkflow(check_text("workflow id", id), position, given)))
        return WorkflowHandle(self._core, given)

    @service_call
    async def repair(self, id: str, position: str, value: Any, reason: str) -> None:
        """Replace what is recorded at a position by a value; the history keeps both, and the reason.

        The workflow goes on with the value; one that has failed does when it is retried. Raises `WorkflowNotFound`,
        `WorkflowTerminated`, `CannotRepair`, and `CodecError` or `PayloadTooLarge` for a value of another type.
        """
        where = check_text("workflow id", id), check_text("position", position)
        told = check_text("reason", reason, length_max=1_000)
        # Here and not where bodies run: whatever the value does while it is written, it does to its own caller.
        text = write_own(self._core.codec, value, "repair: value")
        _raise(await self._core.ask(RepairWorkflow(*where, text, told, type(value).__name__)))

    @service_call
    async def purge(self, older_than: timedelta | float) -> int:
        """Remove workflows that ended longer ago than this; how many. None goes whose parent may still ask."""
        before = self._core.clock.now() - from_duration("older_than", older_than)
        purged = 0
        while count := await self._core.ask(PurgeWorkflows(before)):
            purged += count
        return purged


def _raise(refusal: DurableError | None) -> None:
    if refusal is not None:
        raise refusal
