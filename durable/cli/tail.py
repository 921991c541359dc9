"""`tail`: what happens, line by line: starts, ends and changes of runs, and what is recorded for a single run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import attrs
import click

from durable.cli.client import Client, open_client
from durable.cli.completion import complete_ids
from durable.cli.filters import Filters
from durable.cli.output import Screen, compact, dump, output_option, plain, screen, status_colour, visible
from durable.cli.runs import detail, filters_of, matching, now
from durable.cli.show import entry_text
from durable.cli.store import store_option
from durable.engine.operations.views import WorkflowSummary
from durable.model.records import EntryStatus, HistoryEntry
from durable.model.statuses import WorkflowStatus

# So many of the newest runs are followed.
_FOLLOWED = 500


@attrs.frozen(kw_only=True)
class Happening:
    """One line: when, which run, and what. `status` is that of the run, for its colour."""

    at: datetime
    id: str
    name: str
    status: WorkflowStatus | None
    what: str
    is_error: bool = False
    seq: int | None = None


@click.command()
@click.argument("id", required=False, shell_complete=complete_ids)
@click.option("-w", "--where", multiple=True, metavar="FILTER", help="Only runs that match, as in `ps`.")
@click.option("--interval", type=click.FloatRange(min=0.1), default=0.5, show_default=True, help="Seconds.")
@click.option("--once", is_flag=True, help="Print what there is, and end.")
@output_option(("table", "jsonl"))
@store_option
def tail(id: str | None, *, where: tuple[str, ...], interval: float, once: bool, form: str, store: str) -> None:
    """Follow what happens. With ID: everything that is recorded for a run, until it has ended. Without: starts, ends
    and changes of the newest runs. Ctrl-C ends it.

    \b
    durable tail order-42
    durable tail --where name:checkout
    durable tail -o jsonl | jq .what
    """
    if id is not None and where:
        raise click.UsageError("name either an ID or --where, not both")
    filters = filters_of(where)
    shown = screen()
    pause = threading.Event()
    with open_client(store) as client:
        follow = follow_run(client, id) if id is not None else follow_all(client, filters)
        for happenings in follow:
            for happening in happenings:
                click.echo(_line(happening, shown, form), color=shown.has_colour)
            if once:
                return
            pause.wait(interval)


def follow_run(client: Client, id: str) -> Iterator[list[Happening]]:
    """What is new about one run, at each look. Ends after its end."""
    seen, round, status, progress = 0, 0, None, None
    while True:
        # The description first: what is recorded between the two questions comes with the next look.
        description = client.runs.describe(id)
        run = description.summary
        if description.round != round:
            seen, round = 0, description.round
        entries = [entry for entry in client.runs.history(id) if entry.seq > seen]
        news = [_recorded(run, entry) for entry in entries]
        seen = entries[-1].seq if entries else seen
        if run.progress != progress:
            news.append(_changed(run, f"progress {compact(run.progress)}"))
        if run.status is not status:
            news.append(_changed(run))
        status, progress = run.status, run.progress
        yield news
        if run.status.is_terminal:
            return


def follow_all(client: Client, filters: Filters) -> Iterator[list[Happening]]:
    """What is new about the newest runs, at each look. The first look prints those that are unfinished."""
    before: dict[str, WorkflowSummary] | None = None
    while True:
        runs = {run.id: run for run in matching(client, filters, _FOLLOWED)}
        if before is None:
            news = [_changed(run) for run in runs.values() if not run.status.is_terminal]
        else:
            news = [_changed(run) for id, run in runs.items() if _look(run) != _look(before.get(id))]
        before = runs
        yield sorted(news, key=lambda happening: happening.at)


def _look(run: WorkflowSummary | None) -> Any:
    """The part of a run whose change is worth a line."""
    return None if run is None else (run.status, run.progress, run.cancel_requested, run.parked)


def _changed(run: WorkflowSummary, what: str | None = None) -> Happening:
    text = f"{run.status.value}  {detail(run)}".rstrip() if what is None else what
    is_error = run.status is WorkflowStatus.FAILED
    at = run.finished_at or now()
    return Happening(at=at, id=run.id, name=run.name, status=run.status, what=text, is_error=is_error)


def _recorded(run: WorkflowSummary, entry: HistoryEntry) -> Happening:
    """The line for an entry of a history."""
    outcome = {EntryStatus.OK: "ok", EntryStatus.ERROR: "failed", EntryStatus.RETRY: "failed, will be retried"}
    what = f"{entry.position}  {entry.kind.value} {entry.name}  {outcome[entry.status]}  {entry_text(entry)}"
    is_error = entry.status is not EntryStatus.OK
    return Happening(at=entry.at, id=run.id, name=run.name, status=None, what=what, is_error=is_error, seq=entry.seq)


def _line(happening: Happening, screen: Screen, form: str) -> str:
    if form == "jsonl":
        return dump({**plain(happening), "status": happening.status.value if happening.status else None})
    local = happening.at.astimezone(screen.zone)
    colour = "red" if happening.is_error else status_colour(happening.status) if happening.status else None
    head = f"{local:%H:%M:%S}  {visible(happening.id)} {visible(happening.name)}"
    return f"{head}  {screen.style(visible(happening.what), colour)}"
