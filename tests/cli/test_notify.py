"""What a service manager hears."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable.cli.notify import Notifier


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """The address of a manager as it stands in the environment, and its socket."""
    name = f"durable-test-{os.getpid()}-{id(request)}"
    address, bound = (
        (str(tmp_path / "n"), str(tmp_path / "n")) if request.param == "path" else (f"@{name}", f"\0{name}")
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(bound)
        channel.settimeout(5)
        yield address, channel


def test_manager_hears_everything(manager: tuple[str, socket.socket]) -> None:
    """Each message is a datagram; a status is one line. An address with @ is an abstract socket."""
    address, channel = manager
    notifier = Notifier.of({"NOTIFY_SOCKET": address})
    notifier.ready()
    notifier.status("3 running,\n2 parked")
    notifier.alive()
    notifier.stopping()
    heard = [channel.recv(1000).decode() for _ in range(4)]
    assert heard[:3] == ["READY=1", "STATUS=3 running, 2 parked", "WATCHDOG=1"]
    assert heard[3].startswith("STOPPING=1\n")


@pytest.mark.parametrize("address", ["", "/nowhere/at/all", "@no-such-name"])
def test_silent_without_a_manager(address: str) -> None:
    """Without a manager, or with one that is gone, nothing happens."""
    notifier = Notifier.of({"NOTIFY_SOCKET": address})
    notifier.ready()
    notifier.alive()


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
    ],
)
def test_watchdog_is_fed_twice_per_period(variables: dict[str, str], seconds: float | None) -> None:
    """The beat is half of what the watchdog allows; a watchdog of another process is not fed."""
    assert Notifier.of(variables).beat_every == seconds
