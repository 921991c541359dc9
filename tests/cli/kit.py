"""What the tests of the command line share: a module around a workflow body, and running a command."""

from __future__ import annotations

import textwrap
from pathlib import Path

import attrs
import pytest

from durable.cli.app import main
from durable.cli.lint.findings import Finding, lint

# What the body of an example may use.
HEADER = """
import os
import time
from datetime import date, datetime, timezone
from uuid import uuid4

from durable import Cancelled, Durable, Event, WorkflowEngine, activity, call, gather, now, race, random, sleep, uuid
from durable import workflow

SEEN = []
LIMITS = {"eu": 5}
approval = Event[str]("approval")
engine = WorkflowEngine("memory://")


def remember(order):
    SEEN.append(order)


@activity
def charge(order: str) -> int:
    print(order, time.time())
    return 1


@activity(name="release-it")
async def release(order: str) -> None: ...


@activity
def read_terms() -> str:
    return open("terms.txt").read()


@activity
async def cancel(order: str) -> None:
    await engine.cancel(order)


@workflow(version=2)
def child(order: str) -> Durable[None]:
    yield from sleep(1)

"""


def module(body: str, *, more: str = "", decorated: str = "@workflow\ndef body") -> str:
    """A module with one more workflow, whose body this is."""
    text = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return f"{HEADER}\n{textwrap.dedent(more)}\n{decorated}(order: str, region: str):\n{text}\n"


def findings(text: str, path: str = "flows.py") -> tuple[Finding, ...]:
    """What the lint reports for a text."""
    return lint([(Path(path), text)]).findings


def codes(text: str) -> list[str]:
    """The codes that the lint reports for a text."""
    return [finding.code for finding in findings(text)]


@attrs.frozen
class Ran:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> Ran:
    """Run a command as `python -m durable` would."""
    code = main([str(word) for word in words])
    said = capsys.readouterr()
    return Ran(code, said.out, said.err)
