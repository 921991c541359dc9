"""A night on call, in a real terminal: what an engineer types, and what the screen shows.

One scripted session against a service in another process, through a pty. It looks at what only a terminal has: the
width, colours, questions, Ctrl-C and the exit code of the process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.cli.service import service
from tests.cli.terminal import Terminal

NOBODY = 65534


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A terminal of 80 columns beside a service that has a few runs: one waits, one failed, one asks."""
    store = tmp_path_factory.mktemp("night") / "orders.db"
    with service(store):
        terminal = Terminal(store=store)
        terminal.pipe("start", "cli-checkout", "--id", "order-1", "-P", "order=o1", "--tag", "eu")
        terminal.pipe("start", "cli-delivery", "--id", "late", "-P", "order=" + "long " * 40)
        terminal.pipe("start", "cli-question", "--id", "ask", "-P", "order=o2")
        yield terminal


def test_help_fits_and_groups_the_commands(orders: Terminal) -> None:
    """`durable --help` has one line for each command, in groups, and fits 80 columns."""
    seen = orders.type("--help")
    assert seen.code == 0
    assert all(len(line) <= 80 for line in seen.lines)
    assert [line.strip(":") for line in seen.lines if line.endswith(":") and not line.startswith(" ")] == [
        "Options", "Look", "Use", "Intervene", "Operate", "Before a deploy", "Shell",
    ]  # fmt: skip
    assert sum(line.strip().startswith("ps ") for line in seen.lines) == 1


@pytest.mark.parametrize("width", [60, 80, 140])
def test_tables_fit_the_terminal(orders: Terminal, width: int) -> None:
    """A table is as wide as the terminal, with whole ids; statuses have colours."""
    seen = attrs.evolve(orders, width=width).type("ps")
    assert seen.code == 0
    assert "\x1b[31m" in seen.raw
    assert all(len(line) <= width for line in seen.lines)
    assert any(line.startswith("failed") and " late " in line for line in seen.lines)
    assert any("ValueError: no " in line and line.endswith("…") for line in seen.lines)


def test_pictures_fit_the_terminal(orders: Terminal) -> None:
    """The card and the picture fit too, and say where the run is and what to do."""
    for id, hint in (("order-1", "durable send approval --to order-1"), ("late", "durable retry late")):
        seen = orders.type("show", id)
        assert all(len(line) <= 80 for line in seen.lines)
        assert hint in " ".join(seen.text.split())
    assert "flows.py:" in orders.type("show", "order-1").text


def test_colours_can_be_turned_off(orders: Terminal) -> None:
    """With NO_COLOR there is no escape on the screen, and neither is one in a pipe; a pipe is not cut."""
    assert "\x1b" not in attrs.evolve(orders, variables={"NO_COLOR": "1"}).type("ps").raw
    piped = orders.pipe("ps")
    assert "\x1b" not in piped.stdout
    assert "…" not in piped.stdout
    assert "long long" in piped.stdout


def test_json_is_whole_in_a_terminal(orders: Terminal) -> None:
    """JSON is not cut and not coloured, however narrow the terminal is."""
    rows = [json.loads(line) for line in attrs.evolve(orders, width=40).type("ps", "-o", "jsonl").lines]
    assert {row["id"]: row["status"] for row in rows if row["id"] in ("late", "ask")} == {
        "late": "failed",
        "ask": "suspended",
    }
    assert all({"id", "name", "status"} <= set(row) for row in rows)


def test_ids_flow_through_a_pipe(orders: Terminal) -> None:
    """What `ps` finds is what `retry` takes from stdin."""
    ids = orders.pipe("ps", "status:failed", "-o", "ids").stdout
    assert ids == "late\n"
    retried = orders.pipe("retry", "--yes", "-", stdin=ids)
    assert (retried.returncode, retried.stdout) == (0, "late: continues\n")
    assert orders.pipe("result", "late").returncode == 6


def test_questions_are_asked_in_a_terminal(orders: Terminal) -> None:
    """More than one run is a question: no leaves them alone and ends with 130, yes does it."""
    for id in ("two-1", "two-2"):
        orders.pipe("start", "cli-nap", "--id", id, "--tag", "two")
    refused = orders.type("cancel", "--where", "tag:two", keys="n\n")
    assert refused.code == 130
    assert "Cancel 2 runs (two-2, two-1)? [y/N]" in refused.text
    assert orders.pipe("ps", "--count", "tag:two", "status:suspended").stdout == "2\n"
    done = orders.type("cancel", "--where", "tag:two", keys="y\n")
    assert (done.code, "two-1: asked to end" in done.text) == (0, True)


def test_mistakes_are_one_sentence(orders: Terminal) -> None:
    """A wrong id, a wrong payload, a misspelt command: the code, and a sentence that says what to write."""
    for words, code, hint in (
        (("show", "order-2"), 4, "no workflow with id 'order-2'"),
        (("resume", "ask", "0", "--input", "yes"), 2, "is not JSON"),
        (("resume", "ask", "0", "--input", "3"), 2, "expected bool"),
        (("pss",), 2, "did you mean ps?"),
        (("ps", "failed"), 2, "did you mean status:failed?"),
    ):
        seen = orders.type(*words)
        assert (seen.code, hint in " ".join(seen.text.split())) == (code, True), seen.text
        assert "Traceback" not in seen.text


def test_screens_are_drawn_in_place_and_interrupted(orders: Terminal) -> None:
    """`top` and `show --watch` draw in place; Ctrl-C ends them with 130 and leaves the screen readable."""
    for words in (("top", "--interval", "0.2"), ("show", "order-1", "--watch"), ("tail", "order-1")):
        seen = orders.type(*words, interrupt_after="order-1")
        assert seen.code == 130, seen.text
        assert "Traceback" not in seen.text
        assert seen.lines[-1].endswith("interrupted")


def test_locked_file_is_named(orders: Terminal, tmp_path: Path) -> None:
    """What needs the file for itself says who has it."""
    orders.pipe("backup", str(tmp_path / "copy.db"))
    seen = orders.type("restore", str(tmp_path / "copy.db"), "--overwrite", keys="y\n")
    assert seen.code == 3
    assert "is in use by process" in " ".join(seen.text.split())
    assert orders.type("migrate").code == 3


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can be somebody else")
def test_file_of_another_user_names_the_user(orders: Terminal) -> None:
    """A store that may not be read says whose it is, and how to go on."""
    seen = attrs.evolve(orders, user=NOBODY).type("ps")
    assert seen.code == 3
    assert "user nobody may not look into its directory; run the command as the user of the service" in seen.text
