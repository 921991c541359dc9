"""Schedules for tests of decisions: the operations that create them, and the runs of their ticks."""

from __future__ import annotations

from typing import Any

from durable.backends.base import Backend, Schedules, Workflows
from durable.engine.operations import CreateSchedule
from durable.model.codec import Codec
from durable.model.schedule import CatchUp, Job, Overlap, Plan, ScheduleRecord, run_tag
from durable.runner.definitions import WorkflowCall

_ALL = 1_000_000


def schedule_of(
    call: WorkflowCall[Any],
    name: str = "s",
    *,
    cron: str | None = None,
    every: float | None = None,
    overlap: Overlap = Overlap.SKIP,
    catch_up: CatchUp = CatchUp.SKIP,
    replace: bool = False,
) -> CreateSchedule:
    """The operation that creates a schedule. By default it ticks every minute."""
    call._used = True
    definition = call.definition
    text = Codec().function(definition.fn, definition.label).pack_arguments(call.args, call.kwargs)
    plan = Plan.of("* * * * *" if cron is None and every is None else cron, every)
    job = Job(
        plan=plan,
        workflow=definition.name,
        version=definition.version,
        input=text,
        overlap=overlap,
        catch_up=catch_up,
    )
    return CreateSchedule(name=name, job=job, definition=definition, replace=replace)


def row(backend: Backend, name: str = "s") -> ScheduleRecord:
    """The stored schedule."""
    (record,) = backend.find(Schedules(name=name))
    return record


def ticks(backend: Backend, name: str = "s") -> list[str]:
    """The ticks that have a run, in the order of their runs, as hours, minutes and seconds."""
    runs = backend.find(Workflows(tag=run_tag(name), limit=_ALL))
    return [run.id.removeprefix(f"{name}@")[11:].removesuffix("+00:00").removesuffix(":00") for run in runs]
