"""Which store is meant, and what is said about one that cannot be used."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from durable.cli.exits import NOT_FOUND, REFUSED, Refusal
from durable.cli.store import checked_file, file_of
from durable.model.redaction import redacted
from tests.cli.kit import run


@pytest.mark.parametrize(
    ("store", "path"),
    [
        ("orders.db", "orders.db"),
        ("sqlite:///orders.db", "orders.db"),
        ("sqlite:////var/orders.db", "/var/orders.db"),
        ("postgresql://db/orders", None),
    ],
)
def test_store_has_a_file(store: str, path: str | None) -> None:
    """A path and a SQLite URL name a file, other URLs do not."""
    assert file_of(store) == path


def test_store_in_memory_is_refused() -> None:
    """No command can see the memory of another process."""
    with pytest.raises(click.UsageError, match="name a file"):
        file_of("memory://")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ann:se:cret@db:5432/x failed", "postgresql://ann:***@db:5432/x failed"),
        ("postgresql://db/x?user=a&password=secret&y=1", "postgresql://db/x?user=a&password=***&y=1"),
        ("postgresql://ann@db/x", "postgresql://ann@db/x"),
        ("orders.db", "orders.db"),
    ],
)
def test_passwords_are_hidden(text: str, shown: str) -> None:
    """A password in a URL is replaced, wherever it stands."""
    assert redacted(text) == shown


def test_missing_store_is_not_created(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A store that does not exist is not found, and nothing appears in its place."""
    for words in (["ps"], ["doctor"], ["backup", str(tmp_path / "copy.db")], ["migrate"]):
        ran = run(capsys, "--store", tmp_path / "none.db", *words)
        assert (ran.code, ran.out) == (NOT_FOUND, "")
        assert "there is no such store, and none was created" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_store_must_be_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a store the command says where to name it. The option of the command wins over the other two."""
    monkeypatch.delenv("DURABLE_STORE", raising=False)
    ran = run(capsys, "ps")
    assert (ran.code, "set DURABLE_STORE" in ran.err) == (2, True)
    monkeypatch.setenv("DURABLE_STORE", "variable.db")
    assert "variable.db: there is no" in run(capsys, "ps").err
    assert "group.db: there is no" in run(capsys, "--store", "group.db", "ps").err
    assert "own.db: there is no" in run(capsys, "--store", "group.db", "ps", "--store", "own.db").err


def test_directory_is_not_a_store(tmp_path: Path) -> None:
    """A directory is refused."""
    with pytest.raises(Refusal, match="it is not a file"):
        checked_file(str(tmp_path))


def test_forbidden_store_names_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of another user says whose it is, and how to run the command."""
    path = tmp_path / "theirs.db"
    path.touch()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(Refusal, match=r"may not read this store; it belongs to .*; run the command as") as caught:
        checked_file(str(path))
    assert caught.value.code == REFUSED
    with pytest.raises(Refusal, match="may not write to this store"):
        checked_file(str(path), write=True)
