"""`completion`: the script for a shell, and the ids and names that Tab offers.

Ids come from the file itself, through one short read: a Tab must not wait for an engine, and must never print an error.
"""

from __future__ import annotations

import os
import pathlib
import sqlite3
from contextlib import closing

import click
from click.shell_completion import CompletionItem, get_completion_class

from durable.cli.store import VARIABLE, file_of

_SHOWN = 50
# A Tab waits at most this long for a lock.
_PATIENCE = 0.2


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands, options, ids and names with Tab. It needs `durable` on the path.

    \b
    eval "$(durable completion bash)"                               in ~/.bashrc
    eval "$(durable completion zsh)"                                in ~/.zshrc
    durable completion fish > ~/.config/fish/completions/durable.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    root = context.find_root().command
    click.echo(kind(root, {}, "durable", "_DURABLE_COMPLETE").source())


def complete_ids(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The ids of runs that begin so, newest first."""
    return _matches(context, "SELECT id FROM workflow WHERE id GLOB ? ORDER BY key DESC LIMIT ?", incomplete)


def complete_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of workflows that have run, and begin so."""
    return _matches(context, "SELECT DISTINCT name FROM workflow WHERE name GLOB ? LIMIT ?", incomplete)


def _matches(context: click.Context, sql: str, incomplete: str) -> list[CompletionItem]:
    store = context.params.get("store") or context.find_root().params.get("store") or os.environ.get(VARIABLE)
    try:
        path = file_of(store or "")
        if not path or not os.path.isfile(path):
            return []
        # A store that was closed in order has no log, and must stay without one.
        has_log = os.path.exists(f"{path}-wal")
        uri = f"{pathlib.Path(os.path.realpath(path)).as_uri()}?mode=ro{'' if has_log else '&immutable=1'}"
        literal = "".join(f"[{character}]" if character in "*?[" else character for character in incomplete)
        with closing(sqlite3.connect(uri, uri=True, timeout=_PATIENCE)) as connection:
            rows = connection.execute(sql, (f"{literal}*", _SHOWN)).fetchall()
    except (OSError, ValueError, sqlite3.Error, click.ClickException):
        # No completion is better than an error in the middle of a line.
        return []
    return [CompletionItem(str(text)) for (text,) in rows]
