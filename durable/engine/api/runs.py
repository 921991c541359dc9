"""What an operator does with workflows: `engine.runs`. Listing and reading change nothing in the store."""

from __future__ import annotations

import builtins
from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Self

import attrs

from durable.backends.base import Workflows
from durable.engine.api.arguments import _count, _limit
from durable.engine.api.handle import WorkflowHandle
from durable.engine.api.way import Way, refuse_in_body, service_call
from durable.engine.operations import (
    CountWorkflows,
    ForkWorkflow,
    Listed,
    ListWorkflows,
    PurgeWorkflows,
    ReadHistory,
    RepairWorkflow,
    RetryWorkflow,
)
from durable.engine.operations.views import Description, WorkflowSummary
from durable.errors import DurableError, WrongType
from durable.model.clock import from_datetime, from_duration
from durable.model.ids import check_reason, check_text
from durable.model.records import HistoryEntry, WorkflowStatus
from durable.model.shapes.own_types import write_own

Statuses = WorkflowStatus | Iterable[WorkflowStatus] | None


_SCAN_PAGE = 1_000


def _query(
    limit: int = 1,
    *,
    status: Statuses,
    name: str | None,
    tag: str | None,
    since: datetime | None,
    until: datetime | None,
    id_prefix: str | None,
    parent: str | None,
) -> Workflows:
    """The store's query for the filters of a caller, checked."""
    statuses = (status,) if isinstance(status, WorkflowStatus) else tuple(status or ())
    if not all(isinstance(item, WorkflowStatus) for item in statuses):
        raise WrongType("status", "must be a WorkflowStatus, or an iterable of them")
    return Workflows(
        statuses=statuses,
        name=None if name is None else check_text("name", name),
        tag=None if tag is None else check_text("tag", tag),
        created_since=None if since is None else from_datetime("since", since),
        created_until=None if until is None else from_datetime("until", until),
        id_prefix=None if id_prefix is None else check_text("id_prefix", id_prefix),
        parent=None if parent is None else check_text("parent", parent),
        as_shown=True,
        newest_first=True,
        limit=limit,
    )


def _summaries(page: Iterable[Listed]) -> list[WorkflowSummary]:
    return [WorkflowSummary.of(row.record, row.background.parent_id, row.background.progress) for row in page]


class Scan:
    """An async iterator over all workflows that match, newest first. It asks for a page when the last one is used up.

    Workflows that start meanwhile are not in it.
    """

    def __init__(self, way: Way, query: Workflows, limit: int | None) -> None:
        self._way = way
        self._query = query
        # How many more to ask for at most; None for all.
        self._left = limit
        self._page: deque[WorkflowSummary] = deque()
        self._has_more = True

    async def next(self) -> WorkflowSummary | None:
        """The next workflow; None after the last."""
        if not self._page and self._has_more:
            await self._read()
        return self._page.popleft() if self._page else None

    async def _read(self) -> None:
        """Ask for the next page."""
        size = _SCAN_PAGE if self._left is None else min(self._left, _SCAN_PAGE)
        page = await self._way.ask(ListWorkflows(attrs.evolve(self._query, limit=size)))
        self._page.extend(_summaries(page))
        if self._left is not None:
            self._left -= len(page)
        self._has_more = len(page) == size and self._left != 0
        if page:
            # By key and not by id: the last workflow may be purged before the next page.
            self._query = attrs.evolve(self._query, after=page[-1].record.key)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WorkflowSummary:
        summary = await self.next()
        if summary is None:
            raise StopAsyncIteration
        return summary


@attrs.frozen
class Runs:
    """The workflows of an engine, for operators and dashboards.

    Reading works on any workflow, in memory or not, and changes nothing. `retry`, `fork` and `repair` are for workflows
    that failed or are parked: retry when the cause is gone, repair when a recorded result is wrong, fork to try from an
    earlier step without touching the original.
    """

    _way: Way

    @service_call
    async def list(
        self,
        *,
        status: Statuses = None,
        name: str | None = None,
        tag: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        id_prefix: str | None = None,
        parent: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> builtins.list[WorkflowSummary]:
        """Workflows, newest first, that match all of the given filters.

        `name` is that of the workflow function, `since` and `until` are the earliest and the latest time of the start,
        `parent` is the id of the workflow that started them. One page has at most `limit` (up to 1,000); pass the id of
        its last workflow as `after` for the next one, or use `scan`.
        """
        query = _query(
            _limit(limit),
            status=status,
            name=name,
            tag=tag,
            since=since,
            until=until,
            id_prefix=id_prefix,
            parent=parent,
        )
        return _summaries(
            await self._way.ask(ListWorkflows(query, None if after is None else check_text("after", after)))
        )

    def scan(
        self,
        *,
        status: Statuses = None,
        name: str | None = None,
        tag: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        id_prefix: str | None = None,
        parent: str | None = None,
        limit: int | None = None,
    ) -> Scan:
        """`async for run in engine.runs.scan(...)`: all workflows that match, newest first, read page by page.

        The filters are those of `list`. Workflows that start meanwhile are left out. `limit` is the most of all pages.
        """
        refuse_in_body("Runs.scan")
        query = _query(
            status=status,
            name=name,
            tag=tag,
            since=since,
            until=until,
            id_prefix=id_prefix,
            parent=parent,
        )
        return Scan(self._way, query, None if limit is None else _count("limit", limit, 1, (1 << 63) - 1))

    @service_call
    async def count(
        self,
        *,
        status: Statuses = None,
        name: str | None = None,
        tag: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        id_prefix: str | None = None,
        parent: str | None = None,
    ) -> int:
        """How many workflows match all of the given filters, which are those of `list`."""
        query = _query(
            status=status,
            name=name,
            tag=tag,
            since=since,
            until=until,
            id_prefix=id_prefix,
            parent=parent,
        )
        return await self._way.ask(CountWorkflows(query))

    @service_call
    async def history(self, id: str) -> builtins.list[HistoryEntry]:
        """Everything recorded for a workflow in this round, in order. Raises `WorkflowNotFound`.

        A round ends with `continue_as`, which starts a new and empty history under the same id.
        """
        return await self._way.ask(ReadHistory(check_text("workflow id", id)))

    @service_call
    async def describe(self, id: str) -> Description:
        """What a workflow waits for: since when, until when, which attempt, and where in its source.

        This changes nothing: a workflow whose code is missing keeps its status, and `problem` says what is missing.
        Raises `WorkflowNotFound`.
        """
        return await self._way.describe(check_text("workflow id", id))

    @service_call
    async def retry(self, id: str, reason: str | None = None) -> WorkflowHandle[Any]:
        """Let a failed or parked workflow continue where it stopped: the step that failed runs again.

        The history of a failed workflow keeps the reason; that of a parked one does not change, so the log has it.
        Its children that failed, or were stopped together with it, continue too. Raises `WorkflowNotFound`, or
        `CannotRetry`, which says what to do instead.
        """
        _raise(await self._way.ask(RetryWorkflow(check_text("workflow id", id), check_reason(reason))))
        return WorkflowHandle(self._way, id)

    @service_call
    async def fork(self, id: str, from_position: str, *, new_id: str | None = None) -> WorkflowHandle[Any]:
        """Start a new workflow with a copy of all that this one recorded before a position; it continues from there.

        The original is not changed. Raises `WorkflowNotFound`, `CannotFork`, `WorkflowAlreadyExists`.
        """
        fork_id = self._way.new_id() if new_id is None else check_text("workflow id", new_id)
        position = check_text("from_position", from_position)
        _raise(await self._way.ask(ForkWorkflow(check_text("workflow id", id), position, fork_id)))
        return WorkflowHandle(self._way, fork_id)

    @service_call
    async def repair(self, id: str, position: str, value: Any, reason: str) -> None:
        """Replace the result recorded at a position with a value. The history keeps both, and the reason.

        The workflow continues with the value; a failed one does when it is retried. Raises `WorkflowNotFound`,
        `WorkflowTerminated`, `CannotRepair`, and `CodecError` or `PayloadTooLarge` for a value of another type.
        """
        place = check_text("workflow id", id), check_text("position", position)
        checked_reason = check_text("reason", reason, length_max=1_000)
        # In the caller's task, not on the coordinator's thread: encoding runs code of the value's class, and an error
        # or a delay there must hit this caller only.
        text = write_own(self._way.codec, value, "repair: value")
        _raise(await self._way.ask(RepairWorkflow(*place, text, checked_reason, type(value).__name__)))

    @service_call
    async def purge(self, older_than: timedelta | float) -> int:
        """Remove workflows that ended longer ago than this, and return how many.

        A child stays as long as its parent may still need its result.
        """
        before = self._way.clock.now() - from_duration("older_than", older_than)
        purged = 0
        while count := await self._way.ask(PurgeWorkflows(before)):
            purged += count
        return purged


def _raise(refusal: DurableError | None) -> None:
    """Raise the refusal that an operation replied with, if any."""
    if refusal is not None:
        raise refusal
