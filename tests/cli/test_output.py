"""Tables, texts and JSON."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import attrs
import pytest

from durable import WorkflowStatus
from durable.cli.output import Column, Listing, Screen, cut, plain, screen, table, visible, width_of
from tests.cli.values import PAPER, PIPE, START, summary

COLUMNS = (
    Column[str]("ID", lambda text: text),
    Column[str]("EMPTY", lambda _text: ""),
    Column[str]("LENGTH", lambda text: f"{len(text)} characters", lambda _text: "red"),
)


def test_table_has_a_heading_and_no_empty_column() -> None:
    """Columns are as wide as their texts, and a column without text is left out."""
    assert list(table(COLUMNS, ["a", "longer-id"], PIPE)) == [
        "ID         LENGTH",
        "a          1 characters",
        "longer-id  9 characters",
    ]
    assert list(table(COLUMNS, [], PIPE)) == []


def test_table_is_cut_in_its_last_column_only() -> None:
    """On a terminal the last column is cut; ids never are, however narrow it is."""
    columns = (Column[str]("ID", lambda text: text), Column[str]("DETAIL", lambda text: text * 3))
    narrow = list(table(columns, ["0123456789" * 2], Screen(width=40)))
    assert narrow[1] == "01234567890123456789  01234567890123456…"
    assert width_of(narrow[1]) == 40
    assert list(table(columns, ["0123456789" * 2], Screen(width=30)))[2:] == [
        "01234567890123456789",
        "    0123456789012345678901234…",
    ]
    assert list(table(columns, ["0123456789" * 2], PIPE))[1].endswith("789" * 1)


def test_control_characters_are_shown_as_escapes() -> None:
    """A text of a user cannot move the cursor or change colours, nor begin a line."""
    assert visible("a\x1b[2Jb\nc\u202e") == "a\\x1b[2Jb\\nc\\u202e"
    assert list(table(COLUMNS, ["\x1b[31m"], PIPE))[1].startswith("\\x1b[31m")


def test_width_counts_cells() -> None:
    """Wide characters take two cells, combining ones none; a cut text fits."""
    assert (width_of("abc"), width_of("注文"), width_of("e\u0301")) == (3, 4, 1)
    assert cut("注文注文", 5, PAPER) == "注文…"
    assert cut("abcdefgh", 6, attrs.evolve(PAPER, has_unicode=False)) == "abc..."


def test_colours_only_where_wanted() -> None:
    """Without colours the text is unchanged."""
    assert PIPE.style("failed", "red", bold=True) == "failed"
    assert attrs.evolve(PIPE, has_colour=True).style("failed", "red") == "\x1b[31mfailed\x1b[0m"


def test_pipe_has_no_width_and_no_colour(capsys: pytest.CaptureFixture[str]) -> None:
    """What is not a terminal gets whole lines."""
    shown = screen()
    assert (shown.width, shown.has_colour, shown.is_terminal) == (None, False, False)


def test_values_become_json() -> None:
    """Classes become objects, enums their values, instants ISO texts and durations seconds."""
    assert plain({"run": summary(WorkflowStatus.FAILED, tags=("eu",)), "took": timedelta(seconds=1.5)}) == {
        "run": {
            "id": "order-42", "name": "checkout", "version": 1, "status": "failed",
            "created_at": START.isoformat(), "finished_at": None, "wake_at": None, "tags": ["eu"], "parked": None,
            "cancel_requested": False, "error": None, "parent": None, "progress": None, "kept": False,
        },
        "took": 1.5,
    }  # fmt: skip


@pytest.mark.parametrize("count", [0, 1, 3])
def test_every_form_has_all_items(capsys: pytest.CaptureFixture[str], count: int) -> None:
    """Every form has the same items; JSON is a list, and JSON lines one object each."""
    listing = Listing[str](columns=COLUMNS, row=lambda text: {"id": text, "text": text * 100})
    items = [f"order-{number}" for number in range(count)]
    assert listing.write(items, "ids", PAPER, nothing="none") == count
    assert capsys.readouterr().out.split() == items
    listing.write(items, "json", PAPER, nothing="none")
    whole = json.loads(capsys.readouterr().out)
    assert whole == [{"id": item, "text": item * 100} for item in items]
    listing.write(items, "jsonl", PAPER, nothing="none")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == whole
    listing.write(items, "table", PAPER, nothing="none")
    ran = capsys.readouterr()
    assert (len(ran.out.splitlines()), ran.err) == ((count + 1, "") if count else (0, "none\n"))


def test_odd_values_do_not_break_json() -> None:
    """A value that is not JSON becomes text."""
    assert json.loads(json.dumps(plain({1: Path("a")}), default=str)) == {"1": "a"}
