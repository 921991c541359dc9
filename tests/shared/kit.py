"""Services of several processes, and engines that share a store in one process."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from durable import EngineConfig, WorkflowEngine
from durable.backends.base import Backend
from tests.shared.flows import WORKFLOWS


def engine(store: Path | Backend, **settings: Any) -> WorkflowEngine:
    """An engine that shares the store."""
    config = settings.pop("config", EngineConfig(drain=5))
    return WorkflowEngine(store, **{"workflows": WORKFLOWS, "config": config, "shared": True, **settings})


class Worker:
    """A process of the service. Calls to it may be made from any thread, many at once."""

    def __init__(self, store: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.shared.worker", str(store)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self._numbers = itertools.count()
        self._answers: dict[int, Future[Any]] = {}
        self._guard = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def opened(self) -> Worker:
        """Wait until its engine is open."""
        assert self._process.stdout is not None
        assert json.loads(self._process.stdout.readline()) == "open"
        self._reader.start()
        return self

    def call(self, verb: str, *arguments: Any) -> Future[Any]:
        """Begin a call. Its answer never comes if the process is killed."""
        answer: Future[Any] = Future()
        with self._guard:
            number = next(self._numbers)
            self._answers[number] = answer
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps([number, verb, *arguments]) + "\n")
            self._process.stdin.flush()
        return answer

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, value = json.loads(line)
            self._answers[number].set_result(value)

    def is_owner(self) -> bool:
        """Whether it owns the store."""
        answer: bool = self.call("role").result(10)
        return answer

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self.close()

    def leave(self) -> None:
        """End its input, which ends it in order, without waiting."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def close(self) -> None:
        """End it, and wait."""
        self.leave()
        self._process.wait(30)
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Service:
    """The processes of a service on one store."""

    def __init__(self, store: Path, count: int) -> None:
        self._store = store
        self.workers = [Worker(store) for _ in range(count)]
        for worker in self.workers:
            worker.opened()

    def owner(self) -> Worker:
        """The worker that owns the store. Waits for a takeover that is under way."""
        while True:
            owners = [worker for worker in self.workers if worker.is_owner()]
            assert len(owners) <= 1, "two processes own the store"
            if owners:
                return owners[0]

    def kill_owner(self) -> list[Worker]:
        """SIGKILL the owner; another process starts in its place. Returns those that survived."""
        owner = self.owner()
        owner.kill()
        survivors = [worker for worker in self.workers if worker is not owner]
        self.workers = [*survivors, Worker(self._store).opened()]
        return survivors


@contextmanager
def service(store: Path, count: int) -> Iterator[Service]:
    """A service, until the block is left."""
    running = Service(store, count)
    try:
        yield running
    finally:
        for worker in running.workers:
            worker.close()
