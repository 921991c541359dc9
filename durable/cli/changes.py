"""The commands that change runs: `cancel`, `terminate`, `retry`, `fork`, `repair`, `purge`.

The first three take any number of ids, ids on stdin (`-`) or a filter. All of them are named before anything changes,
and more than one run needs a yes. A run that refuses does not stop the others; the exit code is that of the first
refusal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from durable.cli.client import Client, open_client
from durable.cli.completion import complete_ids
from durable.cli.exits import FAILED, NO_ENGINE, code_of
from durable.cli.inputs import MISSING, duration_option, expand_ids, input_options, read_input
from durable.cli.output import dump, output_option, say, visible
from durable.cli.runs import filters_of, matching, now, run_row
from durable.cli.store import store_option
from durable.cli.words import ago, plural
from durable.errors import DurableError

# So many ids are shown in a question.
_NAMED = 10
# Changes one run, and says what happened to it.
Change = Callable[[Client, str], str]
_reason = click.option("--reason", help="Why. It is stored with the run.")


def many_runs(command: Callable[..., Any]) -> Callable[..., Any]:
    """The arguments and options of a command that changes any number of runs."""
    for option in (
        store_option,
        output_option(("table", "json", "jsonl", "ids")),
        click.option("-y", "--yes", is_flag=True, help="Do not ask before changing more than one run."),
        click.option(
            "-w",
            "--where",
            multiple=True,
            metavar="FILTER",
            help="Runs that match, as in `ps`. May be repeated.",
        ),
        click.argument("ids", nargs=-1, metavar="[ID|-]...", shell_complete=complete_ids),
    ):
        command = option(command)
    return command


@click.command()
@many_runs
@_reason
def cancel(ids: tuple[str, ...], *, reason: str | None, **options: Any) -> int:
    """Ask runs to clean up and end. Their undos and `finally` blocks run. It cannot be taken back.

    \b
    durable cancel order-42 --reason "ordered twice"
    durable cancel --where name:checkout --where tag:test --yes
    """

    def change(client: Client, id: str) -> str:
        return "asked to end" if client.cancel(id, reason) else "had ended already"

    return change_all(change, "Cancel", ids, **options)


@click.command()
@many_runs
@_reason
def terminate(ids: tuple[str, ...], *, reason: str | None, **options: Any) -> int:
    """End runs at once, without their cleanup: no undo and no `finally` block runs. For runs that `cancel` cannot end.

    \b
    durable terminate order-42 --reason "stuck since the migration"
    """

    def change(client: Client, id: str) -> str:
        return "ended" if client.terminate(id, reason) else "had ended already"

    return change_all(change, "Terminate", ids, **options)


@click.command()
@many_runs
@click.option("--reason", help="Why. The history of a failed run keeps it; for a parked one, the log of the engine.")
def retry(ids: tuple[str, ...], *, reason: str | None, **options: Any) -> int:
    """Let failed or parked runs continue where they stopped: the step that failed runs again.

    \b
    durable retry order-42 --reason "the bank is back"
    durable ps status:failed since:2h -o ids | durable retry --yes -
    """

    def change(client: Client, id: str) -> str:
        client.runs.retry(id, reason)
        return "continues"

    return change_all(change, "Retry", ids, **options)


@click.command()
@click.argument("id", shell_complete=complete_ids)
@click.argument("position")
@click.option("--new-id", help="The id of the copy; random by default.")
@store_option
def fork(id: str, position: str, *, new_id: str | None, store: str) -> None:
    """Start a new run with a copy of all that this one recorded before POSITION. The original is not changed.

    `durable show ID` and `durable history ID` have the positions. The id of the new run is printed.

    \b
    durable fork order-42 3 --new-id order-42-again
    """
    with open_client(store) as client:
        click.echo(visible(client.runs.fork(id, position, new_id=new_id).id))


@click.command()
@click.argument("id", shell_complete=complete_ids)
@click.argument("position")
@input_options
@click.option("--reason", required=True, help="Why. It is stored with the run.")
@store_option
def repair(
    id: str,
    position: str,
    *,
    params: tuple[str, ...],
    input_text: str | None,
    input_file: str | None,
    reason: str,
    store: str,
) -> None:
    """Replace the result recorded at POSITION. The history keeps both, and the reason.

    The run continues with the new value; a failed one does so when it is retried.

    \b
    durable repair order-42 1 --input 4200 --reason "the bank confirmed it by phone"
    """
    value = read_input(params, input_text, input_file)
    if value is MISSING:
        raise click.UsageError("what is the right result? Pass it with --input JSON, -P or --input-file")
    with open_client(store) as client:
        client.runs.repair(id, position, value, reason)
    say(f"{visible(id)}: the result at {position} is replaced; a failed run needs durable retry {visible(id)}")


@click.command()
@click.option("--older-than", required=True, metavar="DURATION", help="How long ago they ended, such as 30d.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@store_option
def purge(*, older_than: str, yes: bool, store: str) -> None:
    """Remove runs that ended longer ago than this, with their histories. They cannot be brought back.

    \b
    durable purge --older-than 30d
    """
    age = duration_option("--older-than", older_than)
    with open_client(store) as client:
        moment = now()
        _ask(f"Remove every run that ended before {ago(moment - age, moment)}?", is_sure=yes)
        removed = client.runs.purge(age)
    click.echo(f"{plural(removed, 'run')} removed")


# --- many at once ---------------------------------------------------------------------------------------------------


def change_all(
    change: Change,
    verb: str,
    ids: Sequence[str],
    *,
    where: Sequence[str],
    yes: bool,
    form: str,
    store: str,
) -> int:
    """Change every run that is meant, after a question if they are many. Returns the exit code."""
    filters = filters_of(where)
    if not ids and not where:
        raise click.UsageError("which runs? Name ids, pass - for ids on stdin, or --where FILTER")
    if ids and where:
        raise click.UsageError("name either ids or --where, not both")
    named = list(expand_ids(ids))
    with open_client(store) as client:
        chosen = [run.id for run in matching(client, filters)] if where else named
        if not chosen:
            say("no run matches; nothing was changed")
            return 0
        if len(chosen) > 1:
            shown = ", ".join(map(visible, chosen[:_NAMED])) + (", ..." if len(chosen) > _NAMED else "")
            _ask(f"{verb} {plural(len(chosen), 'run')} ({shown})?", is_sure=yes)
        return _each(client, change, chosen, form)


def _ask(question: str, *, is_sure: bool) -> None:
    """Ask whether to go on. Raises `click.Abort` for a no, and `click.UsageError` if nobody can answer."""
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Nobody can answer here: pass --yes if you are sure")
    if not click.confirm(question, err=True):
        raise click.Abort


def _each(client: Client, change: Change, ids: Sequence[str], form: str) -> int:
    """Change one run after the other and report each. Returns the exit code of the first refusal, 0 without one."""
    code = 0
    rows: list[dict[str, Any]] = []
    for id in ids:
        try:
            outcome = change(client, id)
        except (DurableError, OSError) as error:
            say(f"{visible(id)}: {error}")
            code = code or code_of(error) or FAILED
            if code == NO_ENGINE:
                # The others would say the same.
                break
            continue
        match form:
            case "table":
                click.echo(f"{visible(id)}: {outcome}")
            case "ids":
                click.echo(visible(id))
            case _:
                rows.append({**run_row(client.runs.describe(id).summary), "outcome": outcome})
                if form == "jsonl":
                    click.echo(dump(rows.pop()))
    if form == "json":
        click.echo(dump(rows, indent=2))
    return code
