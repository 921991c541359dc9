"""`doctor`: the command. Reads the facts, runs the checks, prints the findings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import click

from durable.backends.sqlite import owner, survey
from durable.cli.doctor.checks import Facts, Finding, diagnose
from durable.cli.exits import REFUSED, Refusal
from durable.cli.output import Screen, dump, output_option, screen, visible
from durable.cli.store import checked_file, store_option
from durable.cli.words import plural
from durable.engine.api.sync import SyncWorkflowClient
from durable.errors import DurableError, EngineUnreachable
from durable.model.clock import SystemClock
from durable.model.redaction import redacted

# The exit code if something was found.
FOUND = 1
# Seconds in which an engine answers, however busy it is.
_PATIENCE = 3.0


@click.command()
@click.option("--deep", is_flag=True, help="Also look for damage, which reads the whole file.")
@output_option(("table", "json", "jsonl"))
@store_option
def doctor(*, deep: bool, form: str, store: str) -> int:
    """Find what is wrong with a store, and say what to do. Nothing is changed, and no engine is needed.

    Parked and stuck runs, runs on trial after a crash, late timers, a missing engine, a full disk, a log that grows, a
    clock that was set back, an older schema, dead letters, events that nobody takes.

    Exit codes: 0 nothing found, 1 something found.

    \b
    durable doctor
    durable doctor -o json | jq '.[].code'
    """
    path = checked_file(store)
    if path is None:
        raise Refusal(f"{redacted(store)}: doctor examines SQLite files only", REFUSED)
    facts = attrs.evolve(examine(path, SystemClock().now(), is_deep=deep), silence=_silence(path))
    findings = diagnose(facts)
    shown = screen()
    match form:
        case "json":
            click.echo(dump([_row(finding) for finding in findings], indent=2))
        case "jsonl":
            for finding in findings:
                click.echo(dump(_row(finding)))
        case _:
            for line in report(facts, findings, shown):
                click.echo(line, color=shown.has_colour)
    return FOUND if findings else 0


def examine(path: str, now: int, *, is_deep: bool) -> Facts:
    """The facts about a store. The rows of an earlier schema are not read."""
    files = survey.files(path)
    is_current = files.schema_version == files.known_version
    return Facts(files, survey.contents(path, now, is_deep=is_deep) if is_current else None)


def _silence(path: str) -> float | None:
    """How many seconds the engine was given for an answer and did not use; None if it answered, or cannot be asked."""
    if owner.control_path(path) is None:
        return None
    try:
        with SyncWorkflowClient(path, timeout=_PATIENCE) as client:
            client.query_status("a run that need not exist")
    except EngineUnreachable:
        return _PATIENCE
    except DurableError:
        # It has stopped meanwhile, or speaks another version: it is not stuck.
        return None
    return None


def _row(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.code,
        "name": finding.code,
        "status": "found",
        "code": finding.code,
        "what": finding.what,
        "do": finding.do,
        "count": finding.count,
        "examples": list(finding.ids),
    }


def report(facts: Facts, findings: list[Finding], screen: Screen) -> Iterator[str]:
    """The findings for a person, after one line about the store."""
    counts = facts.contents.by_status if facts.contents else {}
    runs = ", ".join(f"{count:,} {status}" for status, count in sorted(counts.items())) or "no runs"
    yield f"{facts.files.path}: {facts.files.size:,} bytes, {runs}; engine: {facts.files.holder or 'none'}"
    for finding in findings:
        yield ""
        yield screen.style(f"! {finding.what}", "red", bold=True)
        if finding.ids:
            more = (
                f", and {plural(finding.count - len(finding.ids), 'other')}" if finding.count > len(finding.ids) else ""
            )
            yield f"  {', '.join(map(visible, finding.ids))}{more}"
        yield f"  -> {finding.do}"
    if not findings:
        yield screen.style("nothing found", "green")
