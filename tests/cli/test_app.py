"""The command line as a whole: help, version, exit codes, and what happens without click."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import durable
from durable import SyncWorkflowEngine
from durable.cli import app, exits
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


@pytest.mark.parametrize("command", [name for entries in app.COMMANDS.values() for name in entries])
def test_help_has_examples(capsys: pytest.CaptureFixture[str], command: str) -> None:
    """Every command is listed, and its help shows how it is called."""
    assert command in run(capsys, "--help").out
    ran = run(capsys, command, "-h")
    assert ran.code == 0
    assert re.search(rf"^  durable .*\b{command}\b", ran.out, re.MULTILINE)


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
    assert (ran.code, ran.err.strip()) == (exits.INTERRUPTED, "interrupted")


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
    assert running.returncode == exits.FAILED


def test_missing_click_is_reported() -> None:
    """Without click the command says what to install, and it does not hide that another module is missing."""
    code = "import sys, runpy; sys.modules[{!r}] = None; runpy.run_module('durable', run_name='__main__')"
    done = python("-c", code.format("click"))
    assert done.returncode == 1
    assert done.stderr == "the command line of durable needs click: pip install 'durable-engine[cli]'\n"
    assert "Traceback" in python("-c", code.format("durable.cli.exits")).stderr


def test_importing_durable_does_not_import_the_command_line() -> None:
    """A service that imports durable imports neither the command line nor click."""
    done = python("-c", "import durable.public, sys; print({'click', 'rich', 'durable.cli'} & set(sys.modules))")
    assert done.stdout == "set()\n"


HEAVY = (
    "asyncio",
    "anyio",
    "cattrs",
    "durable.engine",
    "durable.runner",
    "importlib.resources",
    "rich",
    "sqlite_utils",
)


@pytest.mark.parametrize("words", [["--help"], ["ps"], ["completion", "bash"]])
def test_frequent_command_loads_little(words: list[str], tmp_path: Path) -> None:
    """What is typed a hundred times a day starts at once: it loads no engine, no event loop and nothing for screens."""
    with SyncWorkflowEngine(tmp_path / "empty.db", workflows=[]):
        pass
    loaded = f"print(sorted(set({HEAVY}) & set(sys.modules)), file=sys.stderr)"
    code = f"import sys; from durable.cli.app import main; main({words}); {loaded}"
    environment = ENVIRONMENT | {"DURABLE_STORE": str(tmp_path / "empty.db")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"
