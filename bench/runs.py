"""Makes runs, each in a fresh process with a fresh store on disk. A run that fails becomes a line of results too."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import attrs

from bench.job import Job, Outcome
from bench.peers import PeerMissing, python_of
from bench.plan import PEERS, Planned
from bench.results import Line
from bench.workload import Store

ROOT = Path(__file__).parents[1]
# Seconds after which a run counts as hanging.
PATIENCE = 240.0


class RunFailed(Exception):
    """A process ended or was killed without an outcome. The message says why."""


@attrs.define
class Runner:
    """Runs jobs under one folder. For each contender it keeps the last big store, of which its runs get copies."""

    folder: Path
    patience: float = PATIENCE
    # By contender: the store that was made, with which sizes, and where.
    _made: dict[str, tuple[Store, dict[str, float], Path]] = attrs.field(factory=dict)

    def run(self, planned: Planned) -> Line:
        """Make one run, with a fresh store. It does not raise for a run that fails: the line says why."""
        line = Line(
            workload=planned.workload.name,
            case=planned.case.name,
            contender=planned.contender,
            repeat=planned.repeat,
            sizes=planned.sizes,
        )
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=self.folder))
        try:
            python = python_of(planned.contender) if planned.contender in PEERS else sys.executable
            if planned.store is not None:
                self._copy(self._make(planned, planned.store, python), folder)
            outcome = self._process(planned, python, planned.entry, planned.sizes, folder)
        except (RunFailed, PeerMissing) as error:
            return attrs.evolve(line, did_not_run=str(error))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return attrs.evolve(line, figures=outcome.figures, settings=outcome.settings)

    def _make(self, planned: Planned, store: Store, python: str) -> Path:
        """The folder of a store that several runs copy. Only the last one is kept, because they are big."""
        sizes = {name: planned.sizes[name] for name in store.sizes}
        if planned.contender in self._made:
            made_store, made_sizes, folder = self._made[planned.contender]
            if (made_store, made_sizes) == (store, sizes):
                return folder
            del self._made[planned.contender]
            shutil.rmtree(folder, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix="store-", dir=self.folder))
        try:
            self._process(planned, python, store.entry, sizes, folder)
        except RunFailed:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._made[planned.contender] = (store, sizes, folder)
        return folder

    def _copy(self, store: Path, folder: Path) -> None:
        """Copy a store into the folder of a run, and flush it to the disk."""
        shutil.copytree(store, folder, dirs_exist_ok=True)
        for path in folder.rglob("*"):
            if path.is_file():
                # Or the kernel would write the copy during the run, and the run's own fsync would wait for it.
                with path.open("rb") as file:
                    os.fsync(file.fileno())

    def _process(self, planned: Planned, python: str, entry: str, sizes: dict[str, float], folder: Path) -> Outcome:
        """Run one job in a fresh process and return its outcome.

        The outcome comes in a file, the output goes to a log. Raises `RunFailed` with the last line of the log if there
        is no outcome, or if the process takes longer than `patience` seconds.
        """
        answer = self.folder / f"{folder.name}.answer"
        log = self.folder / f"{folder.name}.log"
        job = Job(
            workload=planned.workload.name,
            case=planned.case.name,
            contender=planned.contender,
            entry=entry,
            sizes=sizes,
            folder=str(folder),
            answer=str(answer),
            repeat=planned.repeat,
            spawned=time.monotonic(),
        )
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [python, "-m", "bench.child", job.to_json()],
                cwd=folder, env=environment, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
            try:
                code = process.wait(self.patience)
            except subprocess.TimeoutExpired:
                raise RunFailed(f"no answer after {self.patience:g} s") from None
            finally:
                _end(process)
        try:
            if not answer.exists():
                raise RunFailed(f"ended with {code}: {_last_words(log)}")
            return Outcome.from_json(answer.read_text())
        finally:
            answer.unlink(missing_ok=True)
            log.unlink()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the whole process group, so that no server of a peer outlives the run."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1].strip()[:300] if lines else "it said nothing"
