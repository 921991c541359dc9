"""Exit codes: every public error has one, and the table decides."""

from __future__ import annotations

import attrs
import click
import pytest

import durable
from durable import errors
from durable.cli import app, exits
from durable.cli.exits import Refusal, code_of
from tests.cli.kit import run

PUBLIC = [
    getattr(durable, name)
    for name in durable.__all__
    if isinstance(getattr(durable, name), type) and issubclass(getattr(durable, name), durable.DurableError)
]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.WorkflowNotFound("a"), 4),
        (errors.ScheduleNotFound("a"), 4),
        (errors.EngineNotRunning("a.db", "cancel"), 5),
        (errors.EngineUnreachable("a.db", 10, "it is stuck"), 5),
        (errors.StoreInUse("a.db", "process 7"), 3),
        (errors.StoreTooNew("a.db", 99, 8), 3),
        (errors.StorageUnavailable("disk full"), 1),
        (PermissionError("no"), 3),
        (errors.PayloadTooLarge("event a", 5, 3), 2),
        (errors.InvalidValue("limit", "must be positive"), 2),
        (errors.WorkflowAlreadyExists("a", "checkout"), 1),
        (TimeoutError("late"), 124),
        (OSError("broken"), 1),
        (Refusal("no", 7), 7),
        (click.UsageError("wrong"), 2),
        (ZeroDivisionError("bug"), None),
    ],
)
def test_error_has_a_code(error: BaseException, code: int | None) -> None:
    """Each kind of error has its code, and a bug has none."""
    assert code_of(error) == code


@pytest.mark.parametrize("kind", PUBLIC, ids=lambda kind: kind.__name__)
def test_public_error_is_never_a_bug(kind: type[Exception]) -> None:
    """Every error that durable raises on purpose has a row that fits."""
    assert any(issubclass(kind, base) for base, _ in exits.CODES)


def test_rows_are_reachable() -> None:
    """No row of the table is hidden by one of its bases further up."""
    kinds = [kind for kind, _ in exits.CODES]
    hidden = [kind for place, kind in enumerate(kinds) if any(issubclass(kind, above) for above in kinds[:place])]
    assert hidden == []


@attrs.frozen
class Raiser:
    """Raises an error in the place of a command."""

    error: Exception

    def __call__(self, *_args: object) -> None:
        raise self.error


def test_bug_is_one_sentence_with_a_way_to_more(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected error is one sentence and 1; `--debug` raises it. Passwords in it are hidden."""
    monkeypatch.setattr("durable.cli.lint.command.lint_files", Raiser(RuntimeError("postgresql://ann:secret@db/x")))
    ran = run(capsys, "lint", "tests/cli/kit.py")
    assert ran.code == 1
    assert ran.err == (
        "Error: RuntimeError: postgresql://ann:***@db/x; this is a bug in durable: "
        "durable --debug ... shows where it happened\n"
    )
    with pytest.raises(RuntimeError):
        app.main(["--debug", "lint", "tests/cli/kit.py"])
