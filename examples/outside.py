"""Stands for the warehouse, the bank, the carrier and the mail server.

Each request takes a moment, and both its ends are reported to whoever watches: that is how the demo knows what really
happened out there, whatever the engine says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio


def _nobody(name: str, what: str) -> None:
    pass


# Called with the name of a request and with "begins" or "answers".
watcher: Callable[[str, str], None] = _nobody
# How many seconds a request takes, where it is not the usual moment.
slow: dict[str, float] = {}
MOMENT = 0.1


async def ask(name: str, answer: str) -> str:
    """A request over the network."""
    with _reported(name):
        await anyio.sleep(slow.get(name, MOMENT))
    return answer


def ask_blocking(name: str) -> None:
    """The same for a library that blocks its thread."""
    with _reported(name):
        time.sleep(slow.get(name, MOMENT))


@contextmanager
def _reported(name: str) -> Iterator[None]:
    watcher(name, "begins")
    yield
    watcher(name, "answers")
