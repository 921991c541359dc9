"""`pauses` and `resume`: questions that workflows have put to people, and their answers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from durable.cli.client import Client, open_client
from durable.cli.completion import complete_ids, complete_names
from durable.cli.inputs import MISSING, input_options, read_input
from durable.cli.output import Column, Listing, compact, output_option, plain, say, screen, visible
from durable.cli.runs import now
from durable.cli.store import store_option
from durable.cli.words import age
from durable.model.records import OpenPause

_PAGE = 1_000


def open_pauses(client: Client, workflow_id: str | None, name: str | None) -> Iterator[OpenPause]:
    """Open pauses, oldest first, read page by page."""
    after = 0
    while page := client.pauses.list(workflow_id=workflow_id, name=name, limit=_PAGE, after=after):
        yield from page
        after = page[-1].number


def _row(pause: OpenPause) -> dict[str, Any]:
    return {
        "id": pause.workflow_id,
        "name": pause.name,
        "status": pause.status.value,
        "pause_id": pause.pause_id,
        "prompt": pause.prompt,
        "expects": pause.expects,
        "since": plain(pause.since),
        "expires_at": plain(pause.expires_at),
    }


def _listing(moment: datetime) -> Listing[OpenPause]:
    return Listing(
        columns=(
            Column("ID", lambda pause: pause.workflow_id),
            Column("PAUSE", lambda pause: pause.pause_id),
            Column("NAME", lambda pause: pause.name),
            Column("ASKED", lambda pause: age(pause.since, moment)),
            Column("EXPIRES", lambda pause: age(pause.expires_at, moment) if pause.expires_at else ""),
            Column("EXPECTS", lambda pause: pause.expects),
            Column("QUESTION", lambda pause: compact(pause.prompt)),
        ),
        row=_row,
    )


@click.group(invoke_without_command=True)
@click.option("--run", "workflow_id", metavar="ID", shell_complete=complete_ids, help="Only those of this run.")
@click.option("--name", shell_complete=complete_names, help="Only those of workflows with this name.")
@output_option()
@store_option
@click.pass_context
def pauses(context: click.Context, *, workflow_id: str | None, name: str | None, form: str, store: str) -> None:
    """List the questions that wait for a person, oldest first.

    \b
    durable pauses
    durable resume order-42 3 --input true
    durable pauses cancel order-42 3 --reason "asked twice"
    """
    if context.invoked_subcommand is None:
        with open_client(store) as client:
            found = open_pauses(client, workflow_id, name)
            _listing(now()).write(found, form, screen(), nothing="no question waits for a person")


@pauses.command("cancel")
@click.argument("id", shell_complete=complete_ids)
@click.argument("pause")
@click.option("--reason", help="Why.")
@store_option
def cancel_pause(id: str, pause: str, *, reason: str | None, store: str) -> None:
    """Withdraw a question: the workflow gets PauseCancelled where it asked."""
    with open_client(store) as client:
        client.pauses.cancel(id, pause, reason)
    say(f"{visible(id)}: the question at {visible(pause)} is withdrawn")


@click.command()
@click.argument("id", shell_complete=complete_ids)
@click.argument("pause")
@input_options
@store_option
def resume(
    id: str,
    pause: str,
    *,
    params: tuple[str, ...],
    input_text: str | None,
    input_file: str | None,
    store: str,
) -> None:
    """Answer the question of a run; `durable pauses` has both ids. The first answer counts.

    \b
    durable resume order-42 3 --input true
    durable resume order-42 3 -P by=ann -P ok:=true
    """
    value = read_input(params, input_text, input_file)
    if value is MISSING:
        raise click.UsageError("what is the answer? Pass it with --input JSON, -P or --input-file")
    with open_client(store) as client:
        client.pauses.resume(id, pause, value)
    say(f"{visible(id)}: the question at {visible(pause)} is answered")
