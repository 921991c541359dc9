"""`make pythons`: the quick tests on every Python of this machine that durable claims to run on.

Each version has its own environment, for example `.venv-3.13`. With `--newest`, only the newest version other than this
process's runs; that is part of `make test`.

Left out is what takes long and says nothing more on another Python: the simulation and its planted bugs, sweeps over
all points of failure, kills of processes and damage to files, all of which try decisions and rows that are the same on
each interpreter; counts of rows, objects and calls that must not grow; and checks of the text of the project.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
OLDEST, NEWEST = (3, 11), (3, 14)
# Tests that take long and depend on the engine rather than on the Python.
SLOW = (
    "bad_inputs", "bench", "exhaustive", "fuzz", "growth", "planted", "power", "processes", "simulation",
    "statemachine", "backends/test_stale_log.py", "scenarios/test_damaged_rows.py",
    "scenarios/test_damaged_schedules.py", "test_demo.py", "test_docs_architecture.py", "test_house.py", "test_soak.py",
)  # fmt: skip

Version = tuple[int, int]


def name_of(version: Version) -> str:
    """The version as people write it."""
    return f"{version[0]}.{version[1]}"


def candidates() -> Iterable[str]:
    """Paths that may be a Python: on the path or of pyenv. A shim of pyenv may stand for an unselected version."""
    for minor in range(OLDEST[1], NEWEST[1] + 1):
        if (path := shutil.which(f"python3.{minor}")) is not None:
            yield path
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    yield from (str(path) for path in sorted(versions.glob("3.*/bin/python")))


def version_of(path: str) -> Version | None:
    """The version of an interpreter. None if it does not run or durable does not claim to run on it."""
    ask = [path, "-c", "import sys; print(*sys.version_info[:2])"]
    answer = subprocess.run(ask, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        return None
    major, minor = map(int, answer.stdout.split())
    return (major, minor) if OLDEST <= (major, minor) <= NEWEST else None


def interpreters(paths: Iterable[str]) -> dict[Version, str]:
    """One interpreter per version, oldest version first."""
    by_version: dict[Version, str] = {}
    for path in paths:
        if (version := version_of(path)) is not None:
            by_version.setdefault(version, path)
    return dict(sorted(by_version.items()))


def newest_other(by_version: dict[Version, str], current: Version) -> dict[Version, str]:
    """The newest version that is not the current one, if there is any."""
    others = [version for version in by_version if version != current]
    return {max(others): by_version[max(others)]} if others else {}


def prepare(version: Version, path: str) -> Path:
    """The environment of a version, created or updated."""
    environment = ROOT / f".venv-{name_of(version)}"
    python, stamp = environment / "bin" / "python", environment / ".installed-tests"
    if not stamp.exists() or stamp.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        sys.stdout.write(f"installing durable and its tests into {environment.name}\n")
        subprocess.run([path, "-m", "venv", str(environment)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--progress-bar", "off", "--editable", ".[test]"]
        subprocess.run(install, check=True, cwd=ROOT)
        stamp.touch()
    return python


def run_tests(python: Path) -> bool:
    """Whether the quick tests pass."""
    ignored = [f"--ignore=tests/{name}" for name in SLOW]
    command = [str(python), "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", "-p", "no:cacheprovider", *ignored]
    return subprocess.run(command, check=False, cwd=ROOT).returncode == 0


def main(arguments: list[str]) -> int:
    """Run the quick tests. Returns 1 if any fail."""
    chosen, current = interpreters(candidates()), sys.version_info[:2]
    if "--newest" in arguments:
        chosen = newest_other(chosen, current)
    if not chosen:
        sys.stdout.write(
            f"skipped: no other Python from {name_of(OLDEST)} to {name_of(NEWEST)} is on the path or in pyenv; "
            f"only {name_of(current)} was tested\n"
        )
        return 0
    failed: list[str] = []
    for version, path in chosen.items():
        python = prepare(version, path)
        sys.stdout.write(f"the quick tests on Python {name_of(version)}\n")
        sys.stdout.flush()
        if not run_tests(python):
            failed.append(name_of(version))
    sys.stdout.write(f"failed on Python {', '.join(failed)}\n" if failed else "")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
