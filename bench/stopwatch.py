"""Wall time beside CPU time: of this process, of the servers that work for it, and of strangers on the machine.

Only the standard library: it also runs in the environments of the peers. The CPU time of other processes comes from
/proc; on a machine without it, servers and strangers count as zero.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

_TICK = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


class Stopwatch:
    """A context manager that times its block. Open and close stores outside it."""

    wall = 0.0
    cpu = 0.0
    # The share of the whole machine that other processes used meanwhile: how much the run was disturbed.
    strangers = 0.0

    def __init__(self, pids: Iterable[int] = (), *, looks_around: bool = True) -> None:
        self._pids = tuple(pids)
        # Whether it counts strangers. That takes some 40 µs and leaves the caches cold: too much before a single call.
        self._looks_around = looks_around
        self._busy = 0.0

    def __enter__(self) -> None:
        self._busy = -self._machine()
        self.cpu = -self._cpu()
        self.wall = -time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wall += time.perf_counter()
        self.cpu += self._cpu()
        self._busy += self._machine()
        self.strangers = max(0.0, self._busy - self.cpu) / (self.wall * (os.cpu_count() or 1))

    def _machine(self) -> float:
        """CPU seconds of the machine, or 0 if strangers are not counted."""
        return machine_cpu() if self._looks_around else 0.0

    def _cpu(self) -> float:
        """CPU seconds of this process and of its servers."""
        return time.process_time() + sum(map(tree_cpu, self._pids))

    def figures(self) -> dict[str, float]:
        """The times, under the names that every line of results has."""
        return {"wall_s": self.wall, "cpu_s": self.cpu, "strangers": self.strangers}


def _fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may contain spaces. Empty if the process has ended."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


def tree_cpu(pid: int) -> float:
    """CPU seconds of a process, of its living children, and of the children it has reaped."""
    fields = _fields(pid)
    if not fields:
        return 0.0
    own = sum(map(int, fields[11:15])) / _TICK
    return own + sum(tree_cpu(child) for child in _children(pid))


def _children(pid: int) -> list[int]:
    try:
        tasks = list((_PROC / str(pid) / "task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def machine_cpu() -> float:
    """CPU seconds that all processes of the machine have used since it booted."""
    try:
        user, nice, system, _idle, _iowait, irq, softirq = map(int, (_PROC / "stat").read_text().split()[1:8])
    except OSError:
        return 0.0
    return (user + nice + system + irq + softirq) / _TICK


def resident(pid: int | str = "self") -> float:
    """Resident memory of a process in MiB."""
    for line in (_PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0
