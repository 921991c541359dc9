"""`python -m bench.shared.drive --kills 50`: four processes behind HTTP on one store, and the owner is killed.

uvicorn (extra `bench`) starts the processes, and replaces those that die. Clients order over HTTP without a pause; each
order is repeated under its id until it is accepted, as browsers and proxies do. In the end every accepted order must
have happened exactly once. The page says how long a client ever waited for an answer. Exit code 1 if a promise broke.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs

from bench.shared.site import LEDGER, STORE
from durable import SyncWorkflowClient, WorkflowStatus

PROCESSES, CLIENTS = 4, 12
# Seconds under load before each kill.
_REST = 1.5


@attrs.define
class Figures:
    """What the clients saw."""

    accepted: set[str] = attrs.field(factory=set)
    # Seconds from the first try of a request until its answer.
    waits: list[float] = attrs.field(factory=list)
    # Tries that ended with the process that had taken them.
    resets: int = 0
    # Answers that were errors.
    errors: int = 0
    # Seconds from each kill until the next owner could be asked.
    takeovers: list[float] = attrs.field(factory=list)


class Customer(threading.Thread):
    """Orders one thing after the other until it is told to stop."""

    def __init__(self, name: str, port: int, figures: Figures, over: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self._port, self._figures, self._over = port, figures, over

    def run(self) -> None:
        """Order, and wait for the result."""
        for number in itertools.count():
            if self._over.is_set():
                return
            id = f"{self.name}-{number}"
            self._ask("POST", id)
            self._figures.accepted.add(id)
            assert self._ask("GET", id) == id

    def _ask(self, verb: str, id: str) -> str:
        """One request, repeated until it is answered."""
        since = time.monotonic()
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
            try:
                connection.request(verb, f"/orders/{id}")
                response = connection.getresponse()
                body = response.read().decode()
            except (OSError, http.client.HTTPException):
                self._figures.resets += 1
                continue
            finally:
                connection.close()
            if response.status < 400:
                self._figures.waits.append(time.monotonic() - since)
                return body
            self._figures.errors += 1


@contextlib.contextmanager
def site(store: Path, ledger: Path) -> Iterator[int]:
    """The processes of the service, until the block is left; its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = ["-m", "uvicorn", "bench.shared.site:application", f"--port={port}", f"--workers={PROCESSES}"]
    environment = {**os.environ, STORE: str(store), LEDGER: str(ledger)}
    service = subprocess.Popen(
        [sys.executable, "-W", "ignore", *command, "--log-level=warning", "--lifespan=on"], env=environment
    )
    try:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield port
    finally:
        service.terminate()
        service.wait(60)


def owner_of(store: Path) -> tuple[int, bool]:
    """The process that the lock file names, and whether it listens."""
    with contextlib.suppress(OSError, ValueError):
        note = json.loads(Path(f"{store}-owner").read_text())
        return note["pid"], bool(note["control"])
    return 0, False


def until_listening(store: Path, but: int = 0) -> int:
    """Wait until a process owns the store and listens; which one."""
    while True:
        pid, listens = owner_of(store)
        if listens and pid != but:
            return pid
        time.sleep(0.002)


def drive(folder: Path, kills: int) -> Figures:
    """The clients, and the kills. Raises `AssertionError` if an order is lost or doubled."""
    store, ledger, figures, stop = folder / "store.db", folder / "ledger", Figures(), threading.Event()
    with site(store, ledger) as port:
        until_listening(store)
        customers = [Customer(f"c{number}", port, figures, stop) for number in range(CLIENTS)]
        for customer in customers:
            customer.start()
        for _ in range(kills):
            time.sleep(_REST)
            owner = until_listening(store)
            os.kill(owner, signal.SIGKILL)
            since = time.monotonic()
            until_listening(store, but=owner)
            figures.takeovers.append(time.monotonic() - since)
        time.sleep(_REST)
        stop.set()
        for customer in customers:
            customer.join()
    check(store, ledger, figures.accepted)
    return figures


def check(store: Path, ledger: Path, accepted: set[str]) -> None:
    """Every accepted order has one run that succeeded, and each of its steps was recorded once and has one key."""
    with SyncWorkflowClient(store) as client:
        seen: Counter[str] = Counter()
        after = None
        while page := client.runs.list(limit=1_000, after=after):
            seen.update(run.id for run in page)
            assert all(run.status is WorkflowStatus.SUCCEEDED for run in page)
            after = page[-1].id
        assert seen == Counter(accepted), (set(seen) ^ accepted, seen.most_common(3))
        for id in accepted:
            assert [entry.name for entry in client.runs.history(id)] == ["drive.write_down"] * 2
    written = set(ledger.read_text().splitlines())
    assert len(written) == 2 * len(accepted)
    assert {key.partition("/")[0] for key in written} == accepted


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.shared.drive", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--kills", type=int, default=50, help="how often the owner is killed (50)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="durable-shared-") as folder:
        figures = drive(Path(folder), options.kills)
        again = len((Path(folder) / "ledger").read_text().splitlines()) - 2 * len(figures.accepted)
    waits, takeovers = sorted(figures.waits), sorted(figures.takeovers)
    rows = [
        ("owners killed", f"{len(takeovers)}"),
        ("orders accepted, each done once", f"{len(figures.accepted):,}"),
        ("activities that ran again", f"{again}"),
        ("requests answered", f"{len(waits):,}"),
        ("  with an error", f"{figures.errors}"),
        ("  lost with their process, repeated", f"{figures.resets}"),
        ("kill to next owner, median and longest", f"{statistics.median(takeovers):.3f} s {takeovers[-1]:.3f} s"),
        ("request, median", f"{statistics.median(waits) * 1000:.1f} ms"),
        ("request, 99th percentile", f"{waits[len(waits) * 99 // 100] * 1000:.1f} ms"),
        ("longest stall that a client saw", f"{waits[-1]:.3f} s"),
    ]
    sys.stdout.write("".join(f"{name:42} {value}\n" for name, value in rows))
    return 1 if figures.errors else 0


if __name__ == "__main__":
    sys.exit(main())
