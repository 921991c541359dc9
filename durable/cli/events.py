"""`send` and `events`: events on their way to runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from durable.cli.client import open_client
from durable.cli.completion import complete_ids
from durable.cli.inputs import MISSING, input_options, read_input
from durable.cli.output import Column, Listing, compact, output_option, plain, say, screen, visible
from durable.cli.runs import now
from durable.cli.store import store_option
from durable.cli.words import age
from durable.engine.operations import Delivered, Queued
from durable.model.dead_letters import PendingEventInfo


@click.command()
@click.argument("event")
@input_options
@click.option("--to", metavar="ID", shell_complete=complete_ids, help="The run to send it to. Default: any that waits.")
@click.option("--key", help="The key that the wait must have.")
@click.option("--event-id", metavar="TEXT", help="Sent twice with the same text, it counts once.")
@click.option("--allow-unstarted", is_flag=True, help="Keep it for an id that has not been started yet.")
@click.option("--force", is_flag=True, help="Also under a name that the engine does not know.")
@store_option
def send(
    event: str,
    *,
    params: tuple[str, ...],
    input_text: str | None,
    input_file: str | None,
    store: str,
    **options: Any,
) -> None:
    """Send EVENT. Its payload is JSON; without one it is null. The engine checks it, and knows how it is delivered.

    \b
    durable send approval --to order-42 -P by=ann -P ok:=true
    durable send price --input 4200
    """
    value = read_input(params, input_text, input_file)
    with open_client(store) as client:
        answer = client.events.send(event, None if value is MISSING else value, **options)
    click.echo(answer_text(answer))


def answer_text(answer: Delivered | Queued) -> str:
    """What happened to an event that was sent."""
    if isinstance(answer, Delivered):
        return f"delivered to {', '.join(map(visible, answer.to))}"
    return "queued: no run waits for it now; durable events lists it until one takes it"


def _listing(moment: datetime) -> Listing[PendingEventInfo]:
    return Listing(
        columns=(
            Column("ID", lambda event: str(event.id)),
            Column("EVENT", lambda event: event.name),
            Column("KEY", lambda event: event.key or ""),
            Column("TO", lambda event: event.to or ("everyone" if event.is_broadcast else "anyone")),
            Column("SENT", lambda event: age(event.sent_at, moment)),
            Column("EXPIRES", lambda event: age(event.expires_at, moment) if event.expires_at else ""),
            Column("PAYLOAD", lambda event: compact(event.payload)),
        ),
        row=lambda event: {**plain(event), "status": "pending"},
    )


@click.group(invoke_without_command=True)
@click.option("--name", help="Only events with this name.")
@click.option("--to", metavar="ID", shell_complete=complete_ids, help="Only those sent to this id, started or not.")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=1000, show_default=True, help="At most this many.")
@output_option()
@store_option
@click.pass_context
def events(context: click.Context, *, name: str | None, to: str | None, limit: int, form: str, store: str) -> None:
    """List the events that no run has taken yet, oldest first.

    \b
    durable events --to order-42
    durable events remove 17
    """
    if context.invoked_subcommand is not None:
        return
    shown = screen()
    with open_client(store) as client:
        pending = client.events.list(name=name, to=to, limit=limit)
    _listing(now()).write(pending, form, shown, nothing="no event is pending")


@events.command()
@click.argument("event_id", type=int)
@store_option
def remove(event_id: int, *, store: str) -> None:
    """Remove a pending event, so that no run takes it."""
    with open_client(store) as client:
        client.events.remove(event_id)
    say(f"event {event_id} is removed")
