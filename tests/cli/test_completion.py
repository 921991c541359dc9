"""What Tab offers, and the scripts for shells."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from durable import SyncWorkflowEngine
from durable.cli.app import COMPLETION_VARIABLE, main
from tests.cli.flows import nap
from tests.cli.kit import run


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A closed store with three runs."""
    path = tmp_path / "naps.db"
    with SyncWorkflowEngine(path, workflows=[nap]) as engine:
        for id in ("order-1", "order-2", "a*b"):
            engine.start(nap(), id=id)
    return path


def offered(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str, store: Path | None = None
) -> list[str]:
    """What bash would be offered for the last of these words."""
    monkeypatch.setenv(COMPLETION_VARIABLE, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    monkeypatch.setenv("DURABLE_STORE", str(store or ""))
    main([])
    return [line.partition(",")[2] for line in capsys.readouterr().out.splitlines() if line]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_is_printed(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    """Each shell gets its script, which asks this command."""
    ran = run(capsys, "completion", shell)
    assert (ran.code, COMPLETION_VARIABLE in ran.out) == (0, True)


def test_commands_and_options_are_offered(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of commands and their options are completed."""
    assert offered(capsys, monkeypatch, "durable sch") == ["schedules"]
    assert "--where" in offered(capsys, monkeypatch, "durable cancel --w")


def test_ids_and_names_are_offered(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, store: Path
) -> None:
    """Ids come from the store, newest first, and what is typed is taken literally. Nothing is left beside the file."""
    before = sorted(os.listdir(store.parent))
    assert offered(capsys, monkeypatch, "durable show order-", store) == ["order-2", "order-1"]
    assert offered(capsys, monkeypatch, "durable show a*", store) == ["a*b"]
    assert offered(capsys, monkeypatch, "durable show *", store) == []
    assert offered(capsys, monkeypatch, "durable start cli", store) == ["cli-nap"]
    assert sorted(os.listdir(store.parent)) == before


def test_nothing_is_offered_without_a_store(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A missing store, a foreign file and a URL offer nothing, and print no error."""
    (tmp_path / "text.db").write_text("not a store")
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE t (a)")
    for name in ("none.db", "text.db", "other.db"):
        assert offered(capsys, monkeypatch, "durable show o", tmp_path / name) == []
    monkeypatch.setenv("DURABLE_STORE", "memory://")
    assert offered(capsys, monkeypatch, "durable show o") == []
