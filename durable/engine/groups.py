"""What an operator does with an engine, grouped by noun: `engine.runs`, `engine.pauses`, `engine.events`,
`engine.dead_letters`."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import attrs

from durable.backends.base import Workflows
from durable.clock import from_datetime, from_duration
from durable.engine.core import Core, service_call
from durable.engine.handle import WorkflowHandle
from durable.engine.mail_operations import ListEvents, ListLetters, RemoveEvent, RemoveLetter, ReplayLetter
from durable.engine.operations import (
    CancelPause,
    CountWorkflows,
    Delivered,
    DescribeWorkflow,
    ListPauses,
    ListWorkflows,
    PurgeWorkflows,
    Queued,
    ReadHistory,
    ResumePause,
)
from durable.engine.repair_operations import ForkWorkflow, RepairWorkflow, RetryWorkflow
from durable.engine.views import Description, WorkflowSummary
from durable.errors import DurableError, InvalidValue, WrongType
from durable.ids import check_reason, check_text
from durable.letters import DeadLetter, PendingEventInfo
from durable.own_types import write_own
from durable.records import HistoryEntry, OpenPause, WorkflowStatus

_LIMIT_MAX = 1_000
Statuses = WorkflowStatus | Iterable[WorkflowStatus] | None


def _limit(limit: int) -> int:
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise WrongType("limit", f"must be an int, not {type(limit).__name__}")
    if not 1 <= limit <= _LIMIT_MAX:
        raise InvalidValue("limit", f"must be 1 to {_LIMIT_MAX}, not {limit}; page on with after=")
    return limit


def _letter_id(what: str, value: int) -> int:
    return _number(what, "id of a dead letter", value)


def _number(what: str, meaning: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongType(what, f"must be the {meaning}, not {value!r}")
    if not 0 <= value < 1 << 63:
        raise InvalidValue(what, f"{value} is no {meaning}")
    return value


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


@attrs.frozen
class Pauses:
    """Questions that workflows have put to people."""

    _core: Core

    @service_call
    async def list(
        self, *, workflow_id: str | None = None, name: str | None = None, limit: int = 100, after: int = 0
    ) -> builtins.list[OpenPause]:
        """Open pauses, oldest first: all, those of a workflow, or those of all workflows with a name.

        `after` is the number of the last one of the page before. Raises `WorkflowNotFound`.
        """
        return await self._core.ask(
            ListPauses(
                workflow_id=None if workflow_id is None else check_text("workflow id", workflow_id),
                name=None if name is None else check_text("name", name),
                after=_number("after", "number of a pause", after),
                limit=_limit(limit),
            )
        )

    @service_call
    async def resume(self, workflow_id: str, pause_id: str, answer: Any) -> None:
        """Answer a pause; the answer is durable when this returns. The first answer stands.

        Raises `PauseNotFound`, `PauseAlreadyAnswered`, `PauseExpired`, `PauseCancelled`, `WorkflowTerminated`,
        `WorkflowParked`, `WorkflowNotFound`; and `CodecError` or `PayloadTooLarge` for an answer that is not what the
        pause asks for, which then stays open.
        """
        place = check_text("workflow id", workflow_id), check_text("pause id", pause_id)
        # Here and not where bodies run: whatever the answer does while it is written, it does to its own caller.
        text = write_own(self._core.codec, answer, "pause: answer")
        _raise(await self._core.ask(ResumePause(*place, text, type(answer).__name__)))

    @service_call
    async def cancel(self, workflow_id: str, pause_id: str, reason: str | None = None) -> None:
        """Take a question back: `PauseCancelled` is raised where the workflow has paused. Refused like `resume`."""
        place = check_text("workflow id", workflow_id), check_text("pause id", pause_id)
        _raise(await self._core.ask(CancelPause(*place, check_reason(reason))))


def _raise(refusal: DurableError | None) -> None:
    if refusal is not None:
        raise refusal


@attrs.frozen
class Events:
    """Events that no workflow has taken yet."""

    _core: Core

    @service_call
    async def list(
        self, *, name: str | None = None, to: str | None = None, limit: int = 100, after: int = 0
    ) -> builtins.list[PendingEventInfo]:
        """Pending events, oldest first: all, those of a name, or those sent to a workflow, started or not.

        `after` is the id of the last one of the page before.
        """
        return await self._core.ask(
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
        await self._core.ask(RemoveEvent(_number("event_id", "id of an event", event_id)))


@attrs.frozen
class DeadLetters:
    """Events that no workflow took; `DeadLetter.reason` says why."""

    _core: Core

    @service_call
    async def list(self, *, limit: int = 100, after: int = 0) -> builtins.list[DeadLetter]:
        """Dead letters, oldest first. `after` is the id of the last one of the page before."""
        return await self._core.ask(ListLetters(_letter_id("after", after), _limit(limit)))

    @service_call
    async def replay(self, letter_id: int, to: str | None = None) -> Delivered | Queued:
        """Send a dead letter again: to a workflow, or untargeted, a broadcast to all. Raises `DeadLetterNotFound`."""
        target = None if to is None else check_text("workflow id", to)
        return await self._core.ask(ReplayLetter(_letter_id("letter_id", letter_id), target))

    @service_call
    async def remove(self, letter_id: int) -> None:
        """Forget a dead letter. Raises `DeadLetterNotFound`."""
        await self._core.ask(RemoveLetter(_letter_id("letter_id", letter_id)))
