"""Runs as the commands see them: reading all that match, as rows and as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from durable.cli.filters import Filters, parse_filters
from durable.cli.output import Column, Listing, Screen, plain, status_colour
from durable.cli.words import age
from durable.model.clock import SystemClock, to_datetime
from durable.model.statuses import WorkflowStatus
from durable.model.summaries import WorkflowSummary

if TYPE_CHECKING:
    from durable.cli.client import Client


def now() -> datetime:
    """The present time."""
    return to_datetime(SystemClock().now())


def filters_of(words: Sequence[str]) -> Filters:
    """The filters of a command. Raises `click.UsageError`."""
    try:
        return parse_filters(words, now())
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def matching(client: Client, filters: Filters, limit: int | None = None) -> Iterator[WorkflowSummary]:
    """The runs that match, newest first."""
    return client.runs.scan(**filters.arguments(), limit=limit)


def count(client: Client, filters: Filters) -> int:
    """How many runs match."""
    return client.runs.count(**filters.arguments())


def run_row(run: WorkflowSummary) -> dict[str, Any]:
    """A run as a JSON object."""
    row: dict[str, Any] = plain(run)
    return row


def run_listing(moment: datetime, screen: Screen) -> Listing[WorkflowSummary]:
    """How a list of runs is written."""
    return Listing(
        columns=(
            Column("STATUS", lambda run: run.status.value, lambda run: status_colour(run.status)),
            Column("ID", lambda run: run.id),
            Column("NAME", lambda run: run.name),
            Column("STARTED", lambda run: age(run.created_at, moment)),
            Column("NEXT", lambda run: _next(run, moment)),
            Column("DETAIL", detail, lambda run: "red" if run.status is WorkflowStatus.FAILED else None),
        ),
        row=run_row,
    )


def _next(run: WorkflowSummary, moment: datetime) -> str:
    """When something happens next, or when the run ended."""
    if run.finished_at is not None:
        return f"ended {age(run.finished_at, moment)}"
    return "" if run.wake_at is None else f"wakes {age(run.wake_at, moment)}"


def detail(run: WorkflowSummary) -> str:
    """The most telling thing about a run, in one line."""
    if run.parked:
        text = run.parked
    elif run.error:
        text = run.error.removeprefix("builtins.")
    elif run.kept:
        text = "kept for the next engine"
    elif run.cancel_requested and not run.status.is_terminal:
        text = "cancel requested"
    elif run.progress is not None:
        text = f"progress {run.progress}"
    else:
        text = ", ".join(run.tags)
    return " ".join(text.split())
