"""`ps`: the runs of a store, newest first."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

import click

from durable.backends.sqlite.reader import StoreReader
from durable.cli import quick
from durable.cli.filters import Filters
from durable.cli.output import output_option, say, screen
from durable.cli.runs import count, filters_of, matching, now, run_listing
from durable.cli.store import checked_file, store_option
from durable.model.summaries import WorkflowSummary

# A table of more lines helps nobody. Output for programs is whole.
_TABLE_LIMIT = 100
Count: TypeAlias = Callable[[Filters], int]
Which: TypeAlias = Callable[[Filters, int | None], Iterator[WorkflowSummary]]


@click.command()
@click.argument("filters", nargs=-1, metavar="[FILTER]...")
@click.option("-n", "--limit", type=click.IntRange(min=1), help=f"At most this many; a table has {_TABLE_LIMIT}.")
@click.option("--count", "only_count", is_flag=True, help="Only say how many there are.")
@output_option()
@store_option
def ps(filters: tuple[str, ...], *, limit: int | None, only_count: bool, form: str, store: str) -> None:
    """List runs, newest first. Filters are joined by "and":

    \b
    status:parked,failed    one of these statuses
    name:checkout           the workflow function
    tag:eu                  a tag of the start
    since:2h until:30m      started in this time; also since:2026-03-01T14:30
    id:order-               ids that begin so
    parent:batch-7          the children of a run

    \b
    durable ps status:failed since:2h
    durable ps status:parked -o ids | durable retry --yes -
    """
    meant = filters_of(filters)
    shown = screen()
    most = limit if limit is not None or form != "table" else _TABLE_LIMIT
    with _looking(store) as (how_many, which):
        if only_count:
            click.echo(how_many(meant))
            return
        written = run_listing(now(), shown).write(which(meant, most), form, shown, nothing="no run matches")
    if form == "table" and limit is None and written == _TABLE_LIMIT:
        say(f"the newest {written} are shown: add a filter, or --limit for more")


@contextmanager
def _looking(store: str) -> Iterator[tuple[Count, Which]]:
    """What counts runs and lists them: the file itself, or else the client of the store."""
    path = checked_file(store)
    if path is not None:
        with StoreReader(path) as reader:
            if not quick.has_kept(reader):
                yield partial(quick.count, reader), partial(quick.matching, reader)
                return
    # It takes longer to import than `ps` takes to run.
    with importlib.import_module("durable.cli.client").open_client(store) as client:
        yield partial(count, client), partial(matching, client)
