"""One run: the job that a fresh process receives, and the outcome that it returns.

Only the standard library: these values travel as JSON into the environments of the peers and back.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """A workload with its sizes, for one contender, in a fresh folder."""

    workload: str
    case: str
    contender: str
    # "package.module:function", called with the job.
    entry: str
    sizes: dict[str, float]
    folder: str
    # The path of the file for the outcome.
    answer: str
    repeat: int
    # time.monotonic() just before the process was started. All processes of a machine share this clock.
    spawned: float

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.folder)

    def size(self, name: str) -> int:
        """One of the sizes, as a count."""
        return int(self.sizes[name])

    def end(self, outcome: Outcome) -> NoReturn:
        """Write the outcome and end the process at once, as a kill would: engines stay open, threads are not joined."""
        Path(self.answer).write_text(outcome.to_json())
        sys.stdout.flush()
        os._exit(0)

    def to_json(self) -> str:
        """The job as text, for the command line of the process."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        """The job in a text."""
        return cls(**json.loads(text))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The figures of a run, and the durability settings they were measured with."""

    figures: dict[str, float]
    settings: str = ""

    def to_json(self) -> str:
        """The outcome as text."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """The outcome in a text."""
        values: dict[str, Any] = json.loads(text)
        return cls(**values)
