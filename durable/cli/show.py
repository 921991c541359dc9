"""`show` and `history`: one run, as a picture and as the record of what happened."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import click

from durable.cli.card import card
from durable.cli.client import Client, open_client
from durable.cli.completion import complete_ids
from durable.cli.output import Column, Listing, Screen, compact, dump, output_option, plain, screen, table
from durable.cli.runs import now
from durable.cli.store import store_option
from durable.cli.timeline import draw, error_text
from durable.cli.words import clock_time
from durable.engine.operations.views import Description
from durable.errors import WorkflowFailed
from durable.model.records import EntryStatus, HistoryEntry
from durable.model.statuses import WorkflowStatus


@click.command()
@click.argument("id", shell_complete=complete_ids)
@click.option("--history", "with_history", is_flag=True, help="Add everything that was recorded.")
@click.option("--all", "is_whole", is_flag=True, help="Draw every step and every failed attempt.")
@click.option("--watch", is_flag=True, help="Draw it again until the run has ended.")
@click.option("--interval", type=click.FloatRange(min=0.2), default=1.0, show_default=True, help="For --watch.")
@output_option(("table", "json"))
@store_option
def show(id: str, *, with_history: bool, is_whole: bool, watch: bool, interval: float, form: str, store: str) -> None:
    """Show where a run is and how it got there: every step with its attempts as bars, what it waits for and since
    when, its next wake-up, its line in the source, its parent and children, its error, and what to do.

    \b
    durable show order-42
    durable show order-42 --history --all
    durable show order-42 --watch
    """
    shown = screen()
    with open_client(store) as client:
        if form == "json":
            description = client.runs.describe(id)
            click.echo(dump(_as_json(client, description, client.runs.history(id)), indent=2))
            return

        def lines() -> tuple[list[str], bool]:
            description, history = client.runs.describe(id), client.runs.history(id)
            drawn = list(_page(client, description, history, shown, is_whole=is_whole))
            if with_history and history:
                drawn += ["", *_history_lines(history, now(), shown)]
            return drawn, description.summary.status.is_terminal

        if watch:
            # It needs rich, which takes longer to import than `show` takes to run.
            importlib.import_module("durable.cli.live").refresh(lines, interval, shown)
            return
        for line in lines()[0]:
            click.echo(line, color=shown.has_colour)


@click.command()
@click.argument("id", shell_complete=complete_ids)
@output_option(("table", "json", "jsonl"))
@store_option
def history(id: str, *, form: str, store: str) -> None:
    """Show everything that was recorded for a run in this round, in order.

    \b
    durable history order-42
    durable history order-42 -o jsonl | jq .value
    """
    shown = screen()
    with open_client(store) as client:
        entries = client.runs.history(id)
    listing = _listing(id, now(), shown)
    listing.write(entries, form, shown, nothing="nothing is recorded in this round yet")


def _page(
    client: Client,
    description: Description,
    history: Sequence[HistoryEntry],
    screen: Screen,
    *,
    is_whole: bool,
) -> Iterator[str]:
    """The lines about a run: the facts, then the picture."""
    moment = now()
    yield from card(description, full_error(client, description), moment, screen)
    drawn = list(draw(description, history, moment, screen, is_whole=is_whole))
    if drawn:
        yield ""
        yield from drawn


def full_error(client: Client, description: Description) -> str | None:
    """The error of a failed run, which the summary cuts; None for any other run."""
    if description.summary.status is not WorkflowStatus.FAILED:
        return None
    try:
        client.handle(description.summary.id).result(timeout=1)
    except WorkflowFailed as error:
        return f"{error.error_type}: {error.message}"
    except TimeoutError:
        # Somebody has retried it meanwhile.
        return None
    return None


def _as_json(client: Client, description: Description, history: Sequence[HistoryEntry]) -> dict[str, Any]:
    """A run as a JSON object: its summary at the top level, then where it is, then its history."""
    whole: dict[str, Any] = plain(description)
    summary = whole.pop("summary")
    error = full_error(client, description)
    return {**summary, "error": error or summary["error"], **whole, "history": [_row(entry) for entry in history]}


def _row(entry: HistoryEntry) -> dict[str, Any]:
    """An entry of a history as a JSON object."""
    return {
        "seq": entry.seq,
        "position": entry.position,
        "kind": entry.kind.value,
        "name": entry.name,
        "status": entry.status.value,
        "at": plain(entry.at),
        "retry_at": plain(entry.retry_at),
        "value": entry.value,
    }


def _listing(id: str, moment: datetime, screen: Screen) -> Listing[HistoryEntry]:
    return Listing(
        columns=(
            Column("#", lambda entry: str(entry.seq)),
            Column("TIME", lambda entry: clock_time(entry.at, moment, screen.zone)),
            Column("POSITION", lambda entry: entry.position),
            Column("KIND", lambda entry: entry.kind.value),
            Column("NAME", lambda entry: entry.name),
            Column("STATUS", lambda entry: entry.status.value, _colour),
            Column("VALUE", entry_text, _colour),
        ),
        row=lambda entry: {"id": id, **_row(entry)},
    )


def _history_lines(history: Sequence[HistoryEntry], moment: datetime, screen: Screen) -> Iterator[str]:
    return table(_listing("", moment, screen).columns, history, screen)


def _colour(entry: HistoryEntry) -> str | None:
    return None if entry.status is EntryStatus.OK else "red"


def entry_text(entry: HistoryEntry) -> str:
    """The outcome of an entry in one line."""
    return compact(entry.value) if entry.status is EntryStatus.OK else error_text(entry.value)
