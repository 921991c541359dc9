"""The group of commands, and their exit codes. Knows nothing about what the commands do."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from durable import __version__
from durable.cli.lint.command import lint
from durable.cli.replay import check_replay, export_histories

# The exit codes of every command, besides 0 for "nothing found".
FOUND, REFUSED, INTERRUPTED = 1, 2, 130


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="Exit codes: 0 nothing found, 1 something found, 2 wrong use or unusable input, 130 interrupted.",
)
@click.version_option(__version__, prog_name="durable", message="%(prog)s %(version)s")
def cli() -> None:
    """Checks for workflows that are written with durable.

    \b
    python -m durable lint src/                              find mistakes in workflow functions, without running them
    python -m durable check-replay orders.db -w shop.flows   which workflows under way do not fit this code?
    """


cli.add_command(lint)
cli.add_command(check_replay)
cli.add_command(export_histories)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. `arguments` defaults to `sys.argv[1:]`."""
    try:
        code = cli.main(arguments, prog_name="python -m durable", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the pipe is gone, as in `| head`. Python would report it again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FOUND
    except click.ClickException as error:
        error.show()
        return REFUSED
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    return int(code or 0)
