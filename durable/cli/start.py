"""`start`: a workflow by name. The engine that has the code checks the arguments."""

from __future__ import annotations

import click

from durable.cli.client import open_client
from durable.cli.completion import complete_names
from durable.cli.inputs import duration_option, input_options, read_arguments
from durable.cli.output import dump, output_option, say, visible
from durable.cli.runs import run_row
from durable.cli.store import store_option
from durable.engine.api.refs import WorkflowRef


@click.command()
@click.argument("name", shell_complete=complete_names)
@click.option("--id", help="The id of the run; random by default. The same id with the same call starts nothing.")
@click.option("--tag", "tags", multiple=True, help="A tag to find it by. May be repeated.")
@click.option("--delay", metavar="DURATION", help="Begin after this time, such as 30m.")
@click.option("--version", type=int, help="The version of the workflow; the newest by default.")
@input_options
@output_option(("table", "json", "ids"))
@store_option
def start(
    name: str,
    *,
    id: str | None,
    tags: tuple[str, ...],
    delay: str | None,
    version: int | None,
    params: tuple[str, ...],
    input_text: str | None,
    input_file: str | None,
    form: str,
    store: str,
) -> None:
    """Start the workflow NAME. Its arguments are passed by name. The id of the run is printed.

    \b
    durable start checkout --id order-42 -P sku=x1 -P quantity:=3
    durable start checkout --input '{"order": {"sku": "x1"}}' --tag eu
    """
    arguments = read_arguments(params, input_text, input_file)
    seconds = None if delay is None else duration_option("--delay", delay)
    call = WorkflowRef(name, version=version)(**arguments)
    with open_client(store) as client:
        handle = client.start(call, id=id, delay=seconds, tags=tags or None)
        run = client.runs.describe(handle.id).summary
    click.echo(dump(run_row(run), indent=2) if form == "json" else visible(run.id))
    if run.kept:
        say("no engine runs; the next one starts it")
