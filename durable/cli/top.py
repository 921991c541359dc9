"""`top`: the runs of a store on one screen, refreshed: how many have each status, and the newest of those."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime

import attrs
import click

from durable.cli.client import Client, open_client
from durable.cli.filters import Filters
from durable.cli.live import refresh
from durable.cli.output import Screen, screen, status_colour, table
from durable.cli.runs import count, filters_of, matching, now, run_listing
from durable.cli.store import store_option
from durable.cli.words import clock_time
from durable.engine.operations.views import WorkflowSummary
from durable.model.redaction import redacted
from durable.model.statuses import WorkflowStatus

# In this order: what needs somebody, what works, what has failed.
_SECTIONS = (WorkflowStatus.PARKED, WorkflowStatus.RUNNING, WorkflowStatus.SUSPENDED, WorkflowStatus.FAILED)
_PIPE_HEIGHT = 40


@attrs.frozen
class View:
    """What one frame shows: the counts, and the newest runs of each section."""

    counts: dict[WorkflowStatus, int]
    runs: tuple[WorkflowSummary, ...]


@click.command()
@click.argument("filters", nargs=-1, metavar="[FILTER]...")
@click.option("--interval", type=click.FloatRange(min=0.2), default=2.0, show_default=True, help="Seconds.")
@click.option("--once", is_flag=True, help="Draw one screen, and end.")
@store_option
def top(filters: tuple[str, ...], *, interval: float, once: bool, store: str) -> None:
    """Watch the runs of a store: counts, then parked, running, suspended and failed runs. Ctrl-C ends it.

    \b
    durable top
    durable top name:checkout
    """
    meant = filters_of(filters)
    if meant.status:
        raise click.UsageError("top shows all statuses; durable ps has status:")
    shown = screen()
    height = _height(shown)
    with open_client(store) as client:

        def frame() -> tuple[list[str], bool]:
            return list(draw(look(client, meant, height), redacted(store), now(), shown)), once

        refresh(frame, interval, shown)


def _height(screen: Screen) -> int:
    """How many runs fit on the screen."""
    lines = shutil.get_terminal_size().lines if screen.is_terminal else _PIPE_HEIGHT
    return max(4, lines - 5)


def look(client: Client, filters: Filters, height: int) -> View:
    """The present state. Every section gets its share of the screen, and what it does not need goes to the next."""
    counts = {status: count(client, attrs.evolve(filters, status=(status,))) for status in WorkflowStatus}
    runs: list[WorkflowSummary] = []
    for place, status in enumerate(_SECTIONS):
        room = (height - len(runs)) // (len(_SECTIONS) - place)
        if counts[status] and room > 0:
            runs += matching(client, attrs.evolve(filters, status=(status,)), room)
    return View(counts, tuple(runs))


def draw(view: View, store: str, moment: datetime, screen: Screen) -> Iterator[str]:
    """The lines of a frame."""
    counts = "  ".join(
        screen.style(f"{number:,} {status.value}", status_colour(status) if number else None, dim=not number)
        for status, number in view.counts.items()
    )
    yield f"{store}  {clock_time(moment, moment, screen.zone)}"
    yield counts
    yield ""
    yield from table(run_listing(moment, screen).columns, view.runs, screen)
