"""The group of commands: finds them, loads one on use, and turns whatever happens into an exit code.

`COMMANDS` is the table of contents. A command's module is imported when the command is used, because a command that an
operator types a hundred times must start at once, and most of the modules are not needed for it.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Sequence

import attrs
import click
from click.exceptions import NoArgsIsHelpError
from click.shell_completion import shell_complete

from durable.cli.exits import FAILED, INTERRUPTED, NO_ENGINE, NOT_FOUND, REFUSED, USAGE, code_of
from durable.cli.store import VARIABLE
from durable.model.redaction import redacted
from durable.model.version import VERSION

NAME = "durable"
COMPLETION_VARIABLE = "_DURABLE_COMPLETE"


@attrs.frozen
class Entry:
    """A command in the table of contents: `module:attribute`, and its line in the list."""

    home: str
    help: str


COMMANDS: dict[str, dict[str, Entry]] = {
    "Look": {
        "ps": Entry("ps:ps", "List runs, by status, name, tag, time or id."),
        "show": Entry("show:show", "One run: its steps, its waits, its error, what to do."),
        "history": Entry("show:history", "Everything that was recorded for a run."),
        "tail": Entry("tail:tail", "Follow what happens."),
        "top": Entry("top:top", "Watch the runs of a store, refreshed."),
    },
    "Use": {
        "start": Entry("start:start", "Start a workflow."),
        "result": Entry("result:result", "Wait for the result of a run."),
        "send": Entry("events:send", "Send an event."),
        "pauses": Entry("pauses:pauses", "Questions that wait for a person."),
        "resume": Entry("pauses:resume", "Answer one of them."),
        "events": Entry("events:events", "Events that no run has taken yet."),
        "dead-letters": Entry("dead_letters:dead_letters", "Events that no run will take."),
        "schedules": Entry("schedules:schedules", "Workflows that start again and again."),
    },
    "Intervene": {
        "cancel": Entry("changes:cancel", "Ask runs to clean up and end."),
        "terminate": Entry("changes:terminate", "End runs at once, without their cleanup."),
        "retry": Entry("changes:retry", "Let failed or parked runs continue."),
        "fork": Entry("changes:fork", "Start a copy of a run from one of its steps."),
        "repair": Entry("changes:repair", "Replace a recorded result."),
    },
    "Operate": {
        "doctor": Entry("doctor.command:doctor", "Find what is wrong, and say what to do."),
        "purge": Entry("changes:purge", "Remove runs that ended long ago."),
        "backup": Entry("files:backup", "Copy the store to a file."),
        "restore": Entry("files:restore", "Put a backup in the place of a store."),
        "migrate": Entry("files:migrate", "Bring the schema of a store up to date."),
        "worker": Entry("worker:worker", "Run an engine as a process."),
    },
    "Before a deploy": {
        "lint": Entry("lint.command:lint", "Find mistakes in workflow functions."),
        "check-replay": Entry("replay:check_replay", "Which runs under way do not fit this code?"),
        "export-histories": Entry("replay:export_histories", "Write runs under way to JSON files."),
    },
    "Shell": {
        "completion": Entry("completion:completion", "Complete commands and ids with Tab."),
    },
}
_ENTRIES = {name: entry for group in COMMANDS.values() for name, entry in group.items()}
_CODES = (
    f"Exit codes: 0 done, {FAILED} failed, {USAGE} wrong use, {REFUSED} refused (permission, lock), "
    f"{NOT_FOUND} not found, {NO_ENGINE} no engine, {INTERRUPTED} interrupted."
)


class Commands(click.Group):
    """The group: it loads a command when its name is used, and lists all of them without loading any."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the table."""
        return list(_ENTRIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command with this name; None if there is none."""
        entry = _ENTRIES.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.home.partition(":")
        command: click.Command = getattr(importlib.import_module(f"durable.cli.{module}"), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names. A word with a typing mistake gets a suggestion."""
        if args and args[0] not in _ENTRIES and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], _ENTRIES, n=1)
            hint = f"did you mean {close[0]}?" if close else f"{NAME} --help lists the commands"
            raise click.UsageError(f"there is no command {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands in groups, with the line that the table has for each."""
        width = max(map(len, _ENTRIES))
        for title, entries in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), entry.help) for name, entry in entries.items()])


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog=_CODES,
)
@click.version_option(VERSION, prog_name=NAME, message="%(prog)s %(version)s")
@click.option("--store", metavar="PATH|URL", help=f"The store to work on; the default is {VARIABLE}.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(store: str | None, *, debug: bool) -> None:
    """Workflows that survive crashes: look at them, steer them, run them.

    \b
    export DURABLE_STORE=orders.db
    durable ps status:failed since:2h    what failed in the last two hours?
    durable show order-42                where is it, what does it wait for?
    durable ps status:parked -o ids | durable retry --yes -
    durable doctor                       is anything wrong?
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. `arguments` defaults to `sys.argv[1:]`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if instruction := os.environ.get(COMPLETION_VARIABLE):
        return shell_complete(cli, {}, NAME, COMPLETION_VARIABLE, instruction)
    try:
        code = cli.main(words, prog_name=NAME, standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the pipe is gone, as in `| head`. Python would report it again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except NoArgsIsHelpError as error:
        error.show()
        return USAGE
    except click.UsageError as error:
        click.UsageError(redacted(error.format_message()), error.ctx).show()
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except Exception as error:
        return _report(error, is_debug="--debug" in words)
    return code if isinstance(code, int) else 0


def _report(error: Exception, *, is_debug: bool) -> int:
    """Say an error in one sentence, and return its exit code. With `--debug` it is raised with its traceback."""
    if is_debug:
        raise error
    code = code_of(error)
    text = error.message if isinstance(error, click.ClickException) else str(error)
    if code is None:
        text = f"{type(error).__name__}: {text}; this is a bug in {NAME}: {NAME} --debug ... shows where it happened"
    click.echo(f"Error: {redacted(text)}", err=True)
    return FAILED if code is None else code
