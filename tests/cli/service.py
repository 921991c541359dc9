"""A service for tests: `durable worker` in another process, with its supervisor's end of the socket."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from tests.cli.flows import STORE

ROOT = Path(__file__).parents[2]
FLOWS = "tests.cli.flows:make_engine"


@attrs.define
class Worker:
    """A worker in another process, and what its supervisor hears."""

    process: subprocess.Popen[str]
    channel: socket.socket

    def hears(self, start: str) -> str:
        """Wait for a message that begins so."""
        while True:
            message = self.channel.recv(1000).decode()
            if message.startswith(start):
                return message

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end. Returns the exit code."""
        self.process.send_signal(number)
        return self.process.wait(20)

    def said(self) -> str:
        """What it has written to stderr, once it has ended."""
        return self.process.stderr.read() if self.process.stderr else ""


@contextmanager
def worker(store: Path, *words: str) -> Iterator[Worker]:
    """A worker that runs until the end of the block; it may still be starting."""
    address = store.with_name(f"notify-{len(list(store.parent.iterdir()))}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(address))
        channel.settimeout(20)
        environment = os.environ | {
            STORE: str(store),
            "PYTHONPATH": str(ROOT),
            "NOTIFY_SOCKET": str(address),
            "WATCHDOG_USEC": "200000",
        }
        line = [sys.executable, "-m", "durable", "worker", *(words or (FLOWS,))]
        with subprocess.Popen(line, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as process:
            try:
                yield Worker(process, channel)
            finally:
                process.kill()


@contextmanager
def service(store: Path) -> Iterator[Worker]:
    """A worker that has recovered and takes work."""
    with worker(store, FLOWS, "--quiet") as running:
        running.hears("READY=1")
        yield running
