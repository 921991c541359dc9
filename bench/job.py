"""One run: what a fresh process is told to measure, and what it says.

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
    """A workload with its sizes, for one contender, in a folder of its own."""

    workload: str
    case: str
    contender: str
    # "package.module:function", called with the job.
    entry: str
    sizes: dict[str, float]
    folder: str
    # The file for the outcome.
    answer: str
    repeat: int
    # time.monotonic() just before the process was started; the clock is the same for all processes of a machine.
    spawned: float

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.folder)

    def size(self, name: str) -> int:
        """One of the sizes, as a count."""
        return int(self.sizes[name])

    def end(self, outcome: Outcome) -> NoReturn:
        """Leave the answer and end the process at once, as a kill would: no engine is closed, no thread waited for."""
        Path(self.answer).write_text(outcome.to_json())
        sys.stdout.flush()
        os._exit(0)

    def to_json(self) -> str:
        """As text, for an argument list."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        """The job that a text holds."""
        return cls(**json.loads(text))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run has measured, and with which settings for durability."""

    figures: dict[str, float]
    settings: str = ""

    def to_json(self) -> str:
        """As text."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """The outcome that a text holds."""
        values: dict[str, Any] = json.loads(text)
        return cls(**values)
