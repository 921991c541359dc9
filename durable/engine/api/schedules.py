"""Workflows that are started again and again: `engine.schedules`."""

from __future__ import annotations

import builtins
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, overload

import attrs

from durable.engine.api.arguments import _count
from durable.engine.api.handle import WorkflowHandle
from durable.engine.api.refs import RefCall, pack
from durable.engine.api.way import Way, refuse_in_body, service_call
from durable.engine.operations import (
    CreateSchedule,
    DeleteSchedule,
    ListSchedules,
    PauseSchedule,
    ResumeSchedule,
    TriggerSchedule,
)
from durable.engine.operations.views import ScheduleSummary
from durable.errors import InvalidValue
from durable.model.ids import check_text
from durable.model.schedule import CatchUp, Job, Overlap, Plan, check_name, check_policies
from durable.runner.definitions import WorkflowCall
from durable.runner.ops import Op

_PAGE_MAX, _UPCOMING_MAX = 1_000, 100
_UPCOMING = 3


@attrs.frozen
class Schedules:
    """Workflows that are started again and again, at times of a cron expression or at a fixed distance.

    Each run is an ordinary workflow with the id `<schedule>@<time>`. Between ticks a schedule is a row with a deadline,
    like a sleeping workflow; ticks that a stopped engine missed are handled by `catch_up` at the next start.
    """

    _way: Way

    @overload
    def create(
        self,
        name: str,
        call: WorkflowCall[Any] | RefCall[Any],
        *,
        cron: str,
        timezone: str | None = None,
        overlap: Overlap = ...,
        catch_up: CatchUp = ...,
        replace: bool = False,
    ) -> Coroutine[Any, Any, ScheduleSummary]: ...
    @overload
    def create(
        self,
        name: str,
        call: WorkflowCall[Any] | RefCall[Any],
        *,
        every: timedelta | float,
        overlap: Overlap = ...,
        catch_up: CatchUp = ...,
        replace: bool = False,
    ) -> Coroutine[Any, Any, ScheduleSummary]: ...
    def create(
        self,
        name: str,
        call: WorkflowCall[Any] | RefCall[Any],
        *,
        cron: str | None = None,
        every: timedelta | float | None = None,
        timezone: str | None = None,
        overlap: Overlap = Overlap.SKIP,
        catch_up: CatchUp = CatchUp.SKIP,
        replace: bool = False,
    ) -> Coroutine[Any, Any, ScheduleSummary]:
        """Start a workflow by a cron expression in a time zone (default UTC), or at a fixed distance from now on.

        Creating the same schedule again changes nothing. A different one under the same name raises
        `ScheduleAlreadyExists`, or takes its place with `replace=True`. Raises `CodecError` or `PayloadTooLarge` for
        the arguments.
        """
        refuse_in_body("Schedules.create")
        if isinstance(call, Op):
            # Here and not in the coroutine, which may never run: a call that was passed on was not forgotten.
            call._used = True
        return self._create(name, call, (cron, every, timezone), (overlap, catch_up), replace=replace)

    async def _create(
        self,
        name: str,
        call: WorkflowCall[Any] | RefCall[Any],
        plan_fields: tuple[str | None, timedelta | float | None, str | None],
        policies: tuple[Overlap, CatchUp],
        *,
        replace: bool,
    ) -> ScheduleSummary:
        check_name(name)
        if isinstance(call, WorkflowCall) and call.child_id is not None:
            raise InvalidValue("schedules.create", "gives each run its own id: pass the call without with_id()")
        plan = Plan.of(*plan_fields)
        overlap, catch_up = policies
        check_policies(overlap, catch_up)
        packed = pack(self._way, call, "schedules.create")
        schedule = await self._way.ask(
            CreateSchedule(
                name=name,
                job=Job(
                    plan=plan,
                    workflow=packed.name,
                    version=packed.version,
                    input=packed.input,
                    overlap=overlap,
                    catch_up=catch_up,
                ),
                definition=packed.definition,
                replace=replace,
            )
        )
        return ScheduleSummary.of(schedule, _UPCOMING)

    @service_call
    async def pause(self, name: str) -> None:
        """Stop starting runs until `resume`; harmless when repeated. Raises `ScheduleNotFound`."""
        await self._way.ask(PauseSchedule(check_name(name)))

    @service_call
    async def resume(self, name: str) -> None:
        """Continue with the next tick; ticks missed while paused are skipped. Raises `ScheduleNotFound`."""
        await self._way.ask(ResumeSchedule(check_name(name)))

    @service_call
    async def trigger(self, name: str, *, id: str | None = None) -> WorkflowHandle[Any]:
        """Start a run now, also while paused. The same id again returns the run it started first.

        Raises `ScheduleNotFound`, or `ScheduleBusy` while the last run is unfinished and runs must not overlap.
        """
        run_id = f"{check_name(name)}@trigger-{self._way.new_id()}" if id is None else check_text("workflow id", id)
        run = await self._way.ask(TriggerSchedule(name, run_id))
        return WorkflowHandle(self._way, run.id)

    @service_call
    async def delete(self, name: str) -> None:
        """Delete a schedule; its runs continue. Raises `ScheduleNotFound`."""
        await self._way.ask(DeleteSchedule(check_name(name)))

    @service_call
    async def list(
        self, *, limit: int = 100, after: str | None = None, upcoming: int = _UPCOMING
    ) -> builtins.list[ScheduleSummary]:
        """Schedules by name, each with its next `upcoming` ticks.

        `after` is the name of the last one on the page before.
        """
        page = ListSchedules(None if after is None else check_name(after), _count("limit", limit, 1, _PAGE_MAX))
        count = _count("upcoming", upcoming, 0, _UPCOMING_MAX)
        return [ScheduleSummary.of(schedule, count) for schedule in await self._way.ask(page)]
