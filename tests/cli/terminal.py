"""A terminal for tests: commands run in another process, with a real pty of a chosen width."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PATIENCE = 25


@attrs.frozen
class Screenful:
    """What a command left on the screen, and its exit code. `raw` has the colours."""

    code: int
    raw: str

    @property
    def text(self) -> str:
        """What can be read."""
        return _ESCAPE.sub("", self.raw).replace("\r\n", "\n")

    @property
    def lines(self) -> list[str]:
        """The lines of the text."""
        return self.text.splitlines()


@attrs.frozen(kw_only=True)
class Terminal:
    """A terminal with a width, and the variables that its commands see."""

    store: Path
    width: int = 80
    variables: dict[str, str] = attrs.field(factory=dict)
    user: int | None = None

    def type(self, *words: str, keys: str = "", interrupt_after: str | None = None) -> Screenful:
        """Run `durable` with these words in the terminal, type `keys`, and wait for its end.

        With `interrupt_after`, Ctrl-C is pressed as soon as this text is on the screen.
        """
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, self.width, 0, 0))
        process = subprocess.Popen(
            self._command(words),
            stdin=theirs, stdout=theirs, stderr=theirs, env=self._environment(), cwd=ROOT, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        os.write(ours, keys.encode())
        raw = b""
        try:
            while chunk := os.read(ours, 65536):
                raw += chunk
                if interrupt_after is not None and interrupt_after.encode() in raw:
                    interrupt_after = None
                    process.send_signal(signal.SIGINT)
        except OSError:
            # Linux reports the end of the other side as an error.
            pass
        os.close(ours)
        return Screenful(process.wait(_PATIENCE), raw.decode())

    def pipe(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run `durable` with these words in a pipe."""
        return subprocess.run(
            [sys.executable, "-m", "durable", *words],
            input=stdin, capture_output=True, text=True, env=self._environment(), cwd=ROOT, timeout=_PATIENCE,
            check=False,
        )  # fmt: skip

    def _command(self, words: tuple[str, ...]) -> list[str]:
        """The command line. Another user may be unable to read this Python, so the process changes its user itself."""
        if self.user is None:
            return [sys.executable, "-m", "durable", *words]
        code = "import os, sys; import durable.cli.app as app, durable.cli.ps; os.setuid({}); sys.exit(app.main())"
        return [sys.executable, "-c", code.format(self.user), *words]

    def _environment(self) -> dict[str, str]:
        keep = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
        own = {"PYTHONPATH": str(ROOT), "DURABLE_STORE": str(self.store), "TERM": "xterm-256color", "TZ": "UTC"}
        return keep | own | self.variables
