"""`dead-letters`: events that no run will take, and what to do with them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from durable.cli.client import Client, open_client
from durable.cli.completion import complete_ids
from durable.cli.events import answer_text
from durable.cli.output import Column, Listing, compact, output_option, plain, say, screen
from durable.cli.runs import now
from durable.cli.store import store_option
from durable.cli.words import age
from durable.model.dead_letters import DeadLetter

_PAGE = 1_000


def letters(client: Client) -> Iterator[DeadLetter]:
    """All dead letters, oldest first, read page by page."""
    after = 0
    while page := client.dead_letters.list(limit=_PAGE, after=after):
        yield from page
        after = page[-1].id


def _row(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "name": letter.name,
        "status": plain(letter.status),
        "key": letter.event_key or None,
        "workflow_id": letter.workflow_id,
        "reason": letter.reason.value,
        "detail": letter.detail,
        "sent_at": plain(letter.sent_at),
        "died_at": plain(letter.died_at),
        "is_broadcast": letter.is_broadcast,
        "payload": letter.payload,
    }


def _listing(moment: datetime) -> Listing[DeadLetter]:
    return Listing(
        columns=(
            Column("ID", lambda letter: str(letter.id)),
            Column("EVENT", lambda letter: letter.name),
            Column("TO", lambda letter: letter.workflow_id or "anyone"),
            Column("DIED", lambda letter: age(letter.died_at, moment)),
            Column("REASON", lambda letter: letter.detail or letter.reason.value, lambda _letter: "red"),
            Column("PAYLOAD", lambda letter: compact(letter.payload)),
        ),
        row=_row,
    )


@click.group("dead-letters", invoke_without_command=True)
@output_option()
@store_option
@click.pass_context
def dead_letters(context: click.Context, *, form: str, store: str) -> None:
    """List the events that no run took, and why, oldest first.

    \b
    durable dead-letters replay 17 --to order-43
    durable dead-letters remove 17
    """
    if context.invoked_subcommand is None:
        with open_client(store) as client:
            _listing(now()).write(letters(client), form, screen(), nothing="there are no dead letters")


@dead_letters.command()
@click.argument("letter_id", type=int)
@click.option("--to", metavar="ID", shell_complete=complete_ids, help="The run to send it to. Default: any that waits.")
@store_option
def replay(letter_id: int, *, to: str | None, store: str) -> None:
    """Send a dead letter again. It is removed once the event is accepted."""
    with open_client(store) as client:
        answer = client.dead_letters.replay(letter_id, to=to)
    click.echo(answer_text(answer))


@dead_letters.command()
@click.argument("letter_ids", type=int, nargs=-1, required=True)
@store_option
def remove(letter_ids: tuple[int, ...], *, store: str) -> None:
    """Delete dead letters."""
    with open_client(store) as client:
        for letter_id in letter_ids:
            client.dead_letters.remove(letter_id)
            say(f"dead letter {letter_id} is removed")
