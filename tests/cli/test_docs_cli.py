"""docs/cli.md is true: its commands exist with these options, its picture is what is drawn, and none is missing."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from durable.cli import exits
from durable.cli.app import COMMANDS, cli
from durable.cli.timeline import draw
from tests.cli.test_timeline import BRANCHES, WAITING
from tests.cli.values import PAPER, after

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "cli.md").read_text()
# A command in an indented block, or in a code block of a shell: each part of a pipe is one.
LINES = [
    part.strip().removeprefix("$ ")
    for page in sorted(DOCS.glob("*.md"))
    for line in re.findall(r"^ {4}(?:\$ )?(durable .*|eval .*)$", page.read_text(), re.MULTILINE)
    for part in re.split(r" [|>] |  +#", line.replace('eval "$(', "").replace(')"', ""))
    if part.strip().startswith("durable ")
]


def parse(words: list[str], command: click.Command, name: str, parent: click.Context | None) -> None:
    """Parse a line as the command would, without running it."""
    context = command.make_context(name, words, parent=parent)
    rest = [*context._protected_args, *context.args]
    if isinstance(command, click.Group) and rest:
        _, inner, words = command.resolve_command(context, rest)
        assert inner is not None
        parse(words, inner, rest[0], context)


@pytest.mark.parametrize("line", sorted(set(LINES)))
def test_command_in_the_docs_can_be_typed(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command line of the docs has a command and options that exist."""
    if "COMMAND" in line or line.endswith("--help"):
        return
    monkeypatch.setenv("DURABLE_STORE", "orders.db")
    parse(shlex.split(line)[1:], cli, "durable", None)


def test_every_command_has_an_example() -> None:
    """No command is missing on the page."""
    shown = {line.split()[1] for line in LINES if len(line.split()) > 1}
    assert {name for entries in COMMANDS.values() for name in entries} <= shown


def test_picture_in_the_docs_is_what_is_drawn() -> None:
    """The picture on the page is the one that the tests draw."""
    block = re.search(r"^```console\n\$ durable show order-42\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert block is not None
    assert block[1] == "\n".join(draw(WAITING, BRANCHES, after(40), PAPER)) + "\n"


def test_exit_codes_in_the_docs_are_those_of_the_command() -> None:
    """The table has every code."""
    listed = {int(number) for row in re.findall(r"^\| ([\d, ]+) \|", PAGE, re.MULTILINE) for number in row.split(",")}
    codes = {value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}
    assert listed == codes
