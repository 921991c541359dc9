"""Wall time beside CPU time of the whole process."""

from __future__ import annotations

import time
from types import TracebackType


class Stopwatch:
    """Times what runs inside it: opening and closing stores stays outside."""

    wall = 0.0
    cpu = 0.0

    def __enter__(self) -> None:
        self.wall, self.cpu = -time.perf_counter(), -time.process_time()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wall += time.perf_counter()
        self.cpu += time.process_time()
