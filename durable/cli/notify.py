"""What a service manager such as systemd wants to hear: `sd_notify`, in one small class.

A message is a datagram to the socket in `NOTIFY_SOCKET`, which may be abstract (`@name`). Without that variable every
method does nothing. A message that cannot be sent is dropped: a supervisor that went away must not stop a service.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping

import attrs


@attrs.frozen
class Notifier:
    """The way to the service manager. `beat_every` is how often it must hear `alive`, in seconds; None for never."""

    _address: str | None = None
    beat_every: float | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Notifier:
        """The notifier that these variables describe. The beat is half of what the watchdog allows, as systemd asks."""
        address = environment.get("NOTIFY_SOCKET") or None
        if address is not None and address.startswith("@"):
            address = "\0" + address[1:]
        allowed, process = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
        # Variables of the parent's own watchdog are inherited, and are not meant for this process.
        is_meant = allowed.isdecimal() and int(allowed) > 0 and process in ("", str(os.getpid()))
        return cls(address, int(allowed) / 2_000_000 if is_meant else None)

    def ready(self) -> None:
        """The engine has recovered and takes work."""
        self._send("READY=1")

    def status(self, text: str) -> None:
        """What the process does, in one line, for `systemctl status`."""
        self._send(f"STATUS={' '.join(text.split())}")

    def alive(self) -> None:
        """The coordinator has just answered."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """The process takes no more work."""
        self._send("STOPPING=1\nSTATUS=letting activities finish")

    def _send(self, message: str) -> None:
        if self._address is None or not hasattr(socket, "AF_UNIX"):
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            # A manager that does not read must not block the engine's loop.
            channel.setblocking(False)
            channel.sendto(message.encode(), self._address)
