"""The command line as a whole: help, version, exit codes, and what happens without click."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import durable
from durable.cli import app as front
from tests.cli.kit import run

ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


def python(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run Python with durable on its path."""
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )


def test_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` names the version of the package."""
    assert run(capsys, "--version").out == f"durable {durable.__version__}\n"


@pytest.mark.parametrize("command", ["lint", "check-replay", "export-histories"])
def test_help_has_examples(capsys: pytest.CaptureFixture[str], command: str) -> None:
    """Every command is listed, and its help shows how it is called."""
    assert command in run(capsys, "--help").out
    ran = run(capsys, command, "-h")
    assert ran.code == 0
    assert f"python -m durable {command} " in ran.out


@pytest.mark.parametrize("words", [["fly"], ["lint"], ["lint", "--fast", "."], ["check-replay", "orders.db"]])
def test_wrong_use_is_two(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    """An unknown command, an unknown option and a missing one end with 2 and an error on stderr."""
    ran = run(capsys, *words)
    assert (ran.code, ran.out) == (2, "")
    assert "Error: " in ran.err


def test_interruption_is_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends with 130, as in a shell."""

    def interrupted(*_args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("durable.cli.lint.command.lint_files", interrupted)
    ran = run(capsys, "lint", ".")
    assert (ran.code, ran.err.strip()) == (front.INTERRUPTED, "interrupted")


def test_module_is_the_command() -> None:
    """`python -m durable` is the command, and its exit code is that of the process."""
    done = python("-m", "durable", "lint", "nowhere")
    assert (done.returncode, done.stdout) == (2, "")


def test_closed_pipe_is_not_an_error() -> None:
    """If the other end of a pipe is closed, the command ends without a traceback."""
    words = [sys.executable, "-m", "durable", "lint", "tests/runner"]
    with subprocess.Popen(words, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.close()
        assert running.stderr is not None
        assert running.stderr.read() == b""
    assert running.returncode == front.FOUND


def test_missing_click_is_reported() -> None:
    """Without click the command says what to install, and it does not hide that another module is missing."""
    code = "import sys, runpy; sys.modules[{!r}] = None; runpy.run_module('durable', run_name='__main__')"
    done = python("-c", code.format("click"))
    assert done.returncode == 1
    assert done.stderr == "the command line of durable needs click: pip install 'durable-engine[cli]'\n"
    assert "Traceback" in python("-c", code.format("durable.cli.lint.codes")).stderr


def test_importing_durable_does_not_import_the_command_line() -> None:
    """A service that imports durable imports neither the command line nor click."""
    shown = "[name for name in sys.modules if 'click' in name or name.startswith('durable.cli')]"
    done = python("-c", f"import durable, sys; print({shown})")
    assert done.stdout == "[]\n"
