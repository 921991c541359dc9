"""What people pass to a command: payloads and ids."""

from __future__ import annotations

import io
from pathlib import Path

import click
import pytest

from durable.cli.inputs import MISSING, expand_ids, parse_params, read_input


def test_params_are_text_or_json() -> None:
    """`=` is text, whatever it looks like; `:=` is JSON."""
    assert parse_params(["name=ann", "n:=42", "url=http://a:=b", "empty=", "all:=[1, null]"]) == {
        "name": "ann",
        "n": 42,
        "url": "http://a:=b",
        "empty": "",
        "all": [1, None],
    }


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (["name"], "write KEY=TEXT"),
        (["=x"], "write KEY=TEXT"),
        (["a=1", "a:=2"], "'a' is given twice"),
        (["n:=forty"], "for a text write '\"forty\"'"),
        (["n:=NaN"], "NaN is not a JSON number"),
        (["n:=" + "[" * 100_000], "nested too deeply|is not JSON"),
    ],
)
def test_wrong_param_says_how_to_write_it(params: list[str], said: str) -> None:
    """A mistake in `-P` is one sentence with the correction."""
    with pytest.raises(click.UsageError, match=said):
        parse_params(params)


def test_input_comes_from_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON comes from an option, a file or stdin. `null` differs from nothing, and two places are refused."""
    (tmp_path / "order.json").write_text('{"sku": "x"}')
    monkeypatch.setattr("sys.stdin", io.StringIO("[1]"))
    assert read_input((), "null", None) is None
    assert read_input((), None, str(tmp_path / "order.json")) == {"sku": "x"}
    assert read_input((), None, "-") == [1]
    assert read_input((), None, None) is MISSING
    with pytest.raises(click.UsageError, match="only one"):
        read_input(("a=1",), "1", None)


@pytest.mark.parametrize(("content", "said"), [(b"\xff", "not UTF-8"), (None, "No such file"), (b"{", "not JSON")])
def test_unreadable_file_is_reported(tmp_path: Path, content: bytes | None, said: str) -> None:
    """A file that is missing, or holds something else, is named with the reason."""
    path = tmp_path / "input"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(click.UsageError, match=said):
        read_input((), None, str(path))


def test_ids_come_from_words_and_stdin_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` stands for the lines of stdin. Empty lines are skipped, blanks in ids stay, and no id comes twice."""
    monkeypatch.setattr("sys.stdin", io.StringIO("b\r\n\na\nwith blank \n"))
    assert list(expand_ids(["a", "-", "c"])) == ["a", "b", "with blank ", "c"]
