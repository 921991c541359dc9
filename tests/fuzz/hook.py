"""An audit hook that records what reading stored bytes must never do.

It cannot be removed, so it needs its own process.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import attrs

# What code that only reads data never does. Opening a file for writing is judged by its name.
FORBIDDEN = (
    "import", "exec", "compile", "code.__new__", "function.__new__", "marshal.", "pickle.", "subprocess.", "os.system",
    "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.remove", "os.rename", "os.putenv", "ctypes.", "shutil.",
    "socket.connect", "urllib.", "webbrowser.", "tempfile.",
)  # fmt: skip


@attrs.define
class Hook:
    """Records what must not happen while it is on."""

    folder: str
    is_on: bool = False
    events: int = 0
    offences: list[str] = attrs.field(factory=list)

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        """Receives every audit event of Python."""
        if not self.is_on:
            return
        self.events += 1
        if event == "compile" and _is_drawing_carets():
            return
        if event.startswith(FORBIDDEN) or (event == "open" and self._writes_elsewhere(args)):
            self.offences.append(f"{event}{args!r:.200}")

    def _writes_elsewhere(self, args: tuple[Any, ...]) -> bool:
        path, mode, flags = args
        is_writing = any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool(flags & 3)
        return is_writing and not str(path).startswith(self.folder)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch while stored bytes are read."""
        self.is_on = True
        try:
            yield
        finally:
            self.is_on = False


def _is_drawing_carets() -> bool:
    """The traceback module parses source lines to mark a place in them."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != traceback.__file__:
        frame = frame.f_back
    return frame is not None
