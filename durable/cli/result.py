"""`result`: the result of a run, as an exit code and as JSON."""

from __future__ import annotations

import click

from durable.cli.client import open_client
from durable.cli.completion import complete_ids
from durable.cli.exits import RUN_CANCELLED, RUN_FAILED, RUN_PARKED, TIMED_OUT, Refusal
from durable.cli.output import dump
from durable.cli.store import store_option
from durable.errors import DurableError, WorkflowCancelled, WorkflowFailed, WorkflowParked


@click.command()
@click.argument("id", shell_complete=complete_ids)
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Wait at most this long; 0 does not wait. The default is to wait for as long as it takes.",
)
@store_option
def result(id: str, *, wait: float | None, store: str) -> None:
    """Wait until a run has ended, and print its result as JSON.

    Exit codes: 0 it succeeded, 4 there is no such run, 6 it failed, 7 it was cancelled, 8 it is parked, 124 it has not
    ended in time.

    \b
    durable result order-42 --wait 60
    """
    with open_client(store) as client:
        try:
            value = client.handle(id).result(timeout=wait)
        except WorkflowFailed as error:
            raise Refusal(str(error), RUN_FAILED) from error
        except WorkflowCancelled as error:
            raise Refusal(str(error), RUN_CANCELLED) from error
        except WorkflowParked as error:
            raise Refusal(
                f"run {id!r} is parked: {error.detail}; durable show {id} says what to do", RUN_PARKED
            ) from error
        except DurableError:
            raise
        except TimeoutError as error:
            raise Refusal(
                f"run {id!r} has not ended within {wait:g} s; durable show {id} says what it waits for", TIMED_OUT
            ) from error
    click.echo(dump(value))
