"""Simulates the warehouse, the bank, the carrier and the mail server.

Each request takes a moment, and its start and end are reported to `watcher`. So the demo can compare what really
happened with what the engine says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio


def _ignore(name: str, step: str) -> None:
    pass


# Receives the name of a request, and "begins" or "answers".
watcher: Callable[[str, str], None] = _ignore
# Seconds that a request takes, by name, if not `MOMENT`.
slow: dict[str, float] = {}
MOMENT = 0.1


async def ask(name: str, answer: str) -> str:
    """Send a request over the network."""
    with _reported(name):
        await anyio.sleep(slow.get(name, MOMENT))
    return answer


def ask_blocking(name: str) -> None:
    """Send a request with a library that blocks its thread."""
    with _reported(name):
        time.sleep(slow.get(name, MOMENT))


@contextmanager
def _reported(name: str) -> Iterator[None]:
    watcher(name, "begins")
    yield
    watcher(name, "answers")
