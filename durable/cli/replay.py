"""`check-replay` and `export-histories`: does the present code fit the unfinished workflows of a store?

Workflows are read one at a time and reported at once, so a store of any size is checked in little memory. Nothing is
written to the store.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, TextIO

import attrs
import click

from durable.backends.histories import load_histories, save_histories
from durable.backends.sqlite.reader import StoreReader
from durable.backends.sqlite.reader import export_histories as read_store
from durable.cli.loading import load_codec, load_workflows
from durable.errors import CodecError, StorageError
from durable.model.codec import Codec
from durable.model.records import ParkReason, WorkflowHistory, WorkflowStatus
from durable.model.registry import Registry
from durable.runner.definitions import WorkflowDef
from durable.runner.replaying import Fit, ReplayResult, replay

_PROGRESS_EVERY = 10_000


@attrs.define
class Tally:
    """How many workflows had which result. `unparked` counts those that are parked now and fit this code."""

    fits: Counter[Fit] = attrs.field(factory=Counter)
    unparked: int = 0

    def add(self, result: ReplayResult) -> None:
        """Count a result."""
        self.fits[result.fit] += 1
        self.unparked += result.fit is Fit.FITS and result.status is WorkflowStatus.PARKED

    @property
    def is_bad(self) -> bool:
        """Whether at least one workflow does not fit."""
        return bool(self.fits[Fit.PARKED] or self.fits[Fit.FAILS])

    def __str__(self) -> str:
        parts = [f"{self.fits[fit]:,} {_WORDING[fit]}" for fit in Fit if self.fits[fit]]
        if self.unparked:
            parts.append(f"{self.unparked:,} that are parked now would continue")
        return f"{self.fits.total():,} workflows replayed: {', '.join(parts) or 'none'}"


_WORDING = {
    Fit.FITS: "fit",
    Fit.PARKED: "would be parked",
    Fit.FAILS: "would fail",
    Fit.SET_ASIDE: "stay parked because they took the process down",
}


class Reporter(Protocol):
    """Writes results as they come."""

    def report(self, result: ReplayResult) -> None:
        """Write the result of one workflow that does not fit."""
        ...

    def end(self, tally: Tally) -> None:
        """Write the totals, after the last result."""
        ...


class TextReporter:
    """For people: each workflow that does not fit, with its diff, and one line with the totals."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def report(self, result: ReplayResult) -> None:
        self._out.write(f"{result}\n")

    def end(self, tally: Tally) -> None:
        self._out.write(f"{tally}\n")


class JsonReporter:
    """For programs: one JSON document, written piece by piece, so that memory does not grow with the store."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._before = '{"workflows": ['

    def report(self, result: ReplayResult) -> None:
        fields = attrs.asdict(result, value_serializer=lambda _owner, _field, value: getattr(value, "value", value))
        fields["fit"] = result.fit.name.lower()
        self._out.write(f"{self._before}\n{json.dumps(fields, ensure_ascii=False)}")
        self._before = ","

    def end(self, tally: Tally) -> None:
        counts = {fit.name.lower(): tally.fits[fit] for fit in Fit} | {"unparked": tally.unparked}
        head = self._before if self._before != "," else ""
        self._out.write(f'{head}\n], "summary": {json.dumps(counts)}}}\n')


@click.command("check-replay", short_help="Which workflows under way do not fit this code?")
@click.argument("source", type=click.Path(path_type=Path))
@click.option(
    "--workflows",
    "-w",
    multiple=True,
    required=True,
    metavar="MODULE[:ATTR]",
    help="A module that defines workflows, or a workflow or list of them in it. May be repeated.",
)
@click.option("--codec", metavar="MODULE:ATTR", help="The Codec that the engine is given, if any.")
@click.option("--name", help="Only workflows of this name.")
@click.option("--limit", type=click.IntRange(min=1), help="At most this many workflows, the oldest first.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
def check_replay(
    source: Path, *, workflows: tuple[str, ...], codec: str | None, name: str | None, limit: int | None, as_json: bool
) -> int:
    """Replay every unfinished workflow of SOURCE against the present code, and list those that would be parked.

    SOURCE is a SQLite store, which is only read and may be in use by a running engine; or a folder or a .json file
    written by `export-histories`.

    \b
    durable check-replay orders.db --workflows shop.flows
    durable check-replay tests/histories --workflows shop.flows --json

    Exit codes: 0 all fit, 1 some would be parked or would fail, 2 the input cannot be used.
    """
    out = sys.stdout
    reporter: Reporter = JsonReporter(out) if as_json else TextReporter(out)
    tally = Tally()
    # Output of modules and bodies must not mix with the results.
    with contextlib.redirect_stdout(sys.stderr), _refusing():
        registry, coding = load_workflows(workflows), load_codec(codec)
        for count, result in enumerate(_results(source, name, registry, coding), start=1):
            tally.add(result)
            if result.is_bad:
                reporter.report(result)
            if count % _PROGRESS_EVERY == 0:
                click.echo(f"… {tally}", err=True)
            if count == limit:
                break
        reporter.end(tally)
    return 1 if tally.is_bad else 0


@click.command("export-histories", short_help="Write workflows under way to JSON files.")
@click.argument("store", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--name", help="Only workflows of this name.")
@click.option("--limit", type=click.IntRange(min=1), help="At most this many workflows, the oldest first.")
def export_histories(store: Path, folder: Path, *, name: str | None, limit: int | None) -> int:
    """Write the unfinished workflows of STORE to FOLDER, one JSON file each, for `check-replay` in a repository.

    The files contain arguments and results as they are stored. Review them before you publish them.

    \b
    durable export-histories orders.db tests/histories --name checkout --limit 20
    """
    with _refusing():
        written = save_histories(read_store(store, name=name, limit=limit), folder)
    click.echo(f"{len(written):,} histories written to {folder}")
    return 0


def _results(
    source: Path, name: str | None, workflows: Registry[WorkflowDef[Any, Any]], codec: Codec
) -> Iterator[ReplayResult]:
    """The result for each workflow of a source, one at a time. A workflow that ends during the check is skipped."""
    if source.is_dir() or source.suffix == ".json":
        for history in load_histories(source):
            if name in (None, history.record.name):
                yield replay(history, workflows, codec)
        return
    with StoreReader(source) as reader:
        for key in reader.keys(name):
            try:
                history_or_none: WorkflowHistory | None = reader.read(key)
            except CodecError as error:
                yield _unreadable(error)
                continue
            if history_or_none is not None:
                yield replay(history_or_none, workflows, codec)


def _unreadable(error: CodecError) -> ReplayResult:
    """The result for a damaged row of a workflow. The engine would leave it out, and its name is unknown."""
    return ReplayResult(
        id=error.where,
        name="?",
        version=0,
        status=WorkflowStatus.PARKED,
        fit=Fit.PARKED,
        reason=ParkReason.UNREADABLE,
        detail=error.problem,
    )


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Turns errors about the input into a `click.UsageError`: one sentence, and exit code 2."""
    try:
        yield
    except (StorageError, CodecError) as error:
        raise click.UsageError(str(error)) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.UsageError(f"{error.filename or os.curdir}: {error.strerror}") from error
