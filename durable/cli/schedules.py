"""`schedules`: workflows that start again and again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from durable.cli.client import Client, open_client
from durable.cli.completion import complete_names
from durable.cli.inputs import duration_option, expand_ids, input_options, read_arguments
from durable.cli.output import Column, Listing, Screen, output_option, plain, say, screen, visible
from durable.cli.runs import now
from durable.cli.store import store_option
from durable.cli.words import age, ago, clock_time, duration
from durable.engine.api.refs import WorkflowRef
from durable.engine.operations.views import ScheduleSummary
from durable.model.schedule import CatchUp, Overlap

_PAGE = 1_000


def every_schedule(client: Client) -> Iterator[ScheduleSummary]:
    """All schedules by name, read page by page."""
    after: str | None = None
    while page := client.schedules.list(limit=_PAGE, after=after):
        yield from page
        after = page[-1].name


def _row(schedule: ScheduleSummary) -> dict[str, Any]:
    return {"id": schedule.name, **plain(schedule), "status": "paused" if schedule.is_paused else "active"}


def when(schedule: ScheduleSummary) -> str:
    """When a schedule ticks, in words: `0 3 * * * Europe/Berlin`, `every 5m 00s`."""
    if schedule.every is not None:
        return f"every {duration(schedule.every)}"
    return f"{schedule.cron}{'' if schedule.timezone == 'UTC' else f' {schedule.timezone}'}"


def _notes(schedule: ScheduleSummary) -> str:
    """What an operator should know: ticks that started nothing."""
    notes = []
    if schedule.skipped:
        notes.append(f"{schedule.skipped:,} ticks skipped, the last run was unfinished")
    if schedule.missed_from is not None:
        notes.append(f"missed from {plain(schedule.missed_from)}")
    if schedule.queued is not None:
        notes.append("one tick waits for the last run to end")
    return "; ".join(notes)


def _listing(moment: datetime, screen: Screen) -> Listing[ScheduleSummary]:
    return Listing(
        columns=(
            Column("NAME", lambda item: item.name),
            Column("STATUS", lambda item: "paused" if item.is_paused else "active", _colour),
            Column("WORKFLOW", lambda item: item.workflow),
            Column("WHEN", when),
            Column("NEXT", lambda item: age(item.next_runs[0], moment) if item.next_runs else ""),
            Column("AT", lambda item: clock_time(item.next_runs[0], moment, screen.zone) if item.next_runs else ""),
            Column("LAST RUN", lambda item: item.last_run or ""),
            Column("NOTES", _notes),
        ),
        row=_row,
    )


def _colour(schedule: ScheduleSummary) -> str:
    return "yellow" if schedule.is_paused else "green"


@click.group(invoke_without_command=True)
@output_option()
@store_option
@click.pass_context
def schedules(context: click.Context, *, form: str, store: str) -> None:
    """List schedules with their next runs, and create, pause, resume, trigger or delete them.

    \b
    durable schedules
    durable schedules create nightly-report report --cron "0 3 * * *" --timezone Europe/Berlin
    durable schedules pause nightly-report
    durable schedules trigger nightly-report
    """
    if context.invoked_subcommand is None:
        shown = screen()
        with open_client(store) as client:
            _listing(now(), shown).write(every_schedule(client), form, shown, nothing="there are no schedules")


@schedules.command()
@click.argument("name")
@click.argument("workflow", shell_complete=complete_names)
@click.option("--cron", help="When, as a cron expression: minute, hour, day, month, weekday.")
@click.option("--timezone", help="The time zone of --cron; UTC by default.")
@click.option("--every", metavar="DURATION", help="Instead: at this distance, such as 15m.")
@click.option("--overlap", type=click.Choice([each.value for each in Overlap]), default="skip", show_default=True)
@click.option("--catch-up", type=click.Choice([each.value for each in CatchUp]), default="skip", show_default=True)
@click.option("--replace", is_flag=True, help="Replace a schedule with this name.")
@input_options
@store_option
def create(
    name: str,
    workflow: str,
    *,
    cron: str | None,
    timezone: str | None,
    every: str | None,
    overlap: str,
    catch_up: str,
    replace: bool,
    params: tuple[str, ...],
    input_text: str | None,
    input_file: str | None,
    store: str,
) -> None:
    """Start WORKFLOW again and again, by a cron expression or at a fixed distance. Its arguments are passed by name."""
    call = WorkflowRef(workflow)(**read_arguments(params, input_text, input_file))
    times: dict[str, Any] = {"cron": cron, "timezone": timezone}
    times["every"] = None if every is None else duration_option("--every", every)
    policies: dict[str, Any] = {"overlap": Overlap(overlap), "catch_up": CatchUp(catch_up), "replace": replace}
    with open_client(store) as client:
        schedule = client.schedules.create(name, call, **times, **policies)
    moment = now()
    next_run = f"; next {ago(schedule.next_runs[0], moment)}" if schedule.next_runs else ""
    say(f"{visible(name)} runs {visible(workflow)} {when(schedule)}{next_run}")


@schedules.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@store_option
def pause(names: tuple[str, ...], *, store: str) -> None:
    """Stop starting runs until `resume`."""
    with open_client(store) as client:
        for name in expand_ids(names):
            client.schedules.pause(name)
            say(f"{visible(name)} is paused")


@schedules.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@store_option
def resume(names: tuple[str, ...], *, store: str) -> None:
    """Continue with the next tick."""
    with open_client(store) as client:
        for name in expand_ids(names):
            client.schedules.resume(name)
            say(f"{visible(name)} continues with its next tick")


@schedules.command()
@click.argument("name")
@click.option("--id", help="The id of the run. The same id again starts nothing.")
@store_option
def trigger(name: str, *, id: str | None, store: str) -> None:
    """Start a run now, also while paused. The id of the run is printed."""
    with open_client(store) as client:
        click.echo(visible(client.schedules.trigger(name, id=id).id))


@schedules.command()
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@store_option
def delete(name: str, *, yes: bool, store: str) -> None:
    """Delete a schedule. Its runs continue."""
    with open_client(store) as client:
        if not yes:
            click.confirm(f"Delete the schedule {visible(name)}?", abort=True, err=True)
        client.schedules.delete(name)
    say(f"{visible(name)} is deleted")
