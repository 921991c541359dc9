"""What programs publish, and the invariants about it: progress is stored with its step and never goes back.

A value says in which round and at what time of the workflow it was published, and where: by these it can be compared.
"""

from __future__ import annotations

import functools
import json
from datetime import timedelta
from typing import Any

from durable.backends.base import Batch
from durable.model.records import Progress, WorkflowStatus
from durable.runner.determinism import info, now
from durable.runner.publishing import publish
from durable.testing.clock import NOON
from simulation.ledger import Ledger
from simulation.violation import Violation

BEGIN, END = "begin", "end"


def tell(mark: int | str) -> None:
    """Publish, in a workflow body."""
    publish([info().round, (now() - NOON) // timedelta(microseconds=1), mark])


def _when(progress: Progress) -> tuple[int, int]:
    round, at, _ = json.loads(progress.value)
    return round, at


@functools.lru_cache(4096)
def _publishes(input: str) -> bool:
    """Whether a program tells of the beginning of each round and of its end."""
    program: dict[str, Any] = json.loads(json.loads(input)["program"])
    return bool(program.get("publishes"))


def i32_progress_does_not_go_back(ledger: Ledger, batch: Batch, now: int) -> None:
    """What is shown of a workflow is never older than what was shown before."""
    for key, progress in batch.progress_put.items():
        known = ledger.progress.get(key)
        life = ledger.lives.get(key)
        if life is not None and (life.was_reopened or life.has_ended):
            # Since an operator has set it right it may say something else, from an earlier step on.
            continue
        if known is not None and (progress.round, progress.seq) <= (known.round, known.seq):
            raise Violation("I32", f"workflow {key}: {progress} is stored after {known}")
        if known is not None and _when(progress) < _when(known):
            raise Violation("I32", f"workflow {key} shows {progress.value} after {known.value}")


def i32_progress_is_stored_with_its_step(ledger: Ledger, batch: Batch, now: int) -> None:
    """A workflow that has learnt something in a round shows that this round has begun; one that succeeded, its end."""
    for key in {*batch.workflows_new, *batch.workflows_changed, *(key for key, _ in batch.history)}:
        life = ledger.lives[key]
        has_succeeded = life.record.status is WorkflowStatus.SUCCEEDED
        if not (life.seq or has_succeeded) or not _publishes(life.record.input):
            continue
        shown = ledger.progress.get(key)
        if shown is None or _when(shown)[0] != life.record.round:
            raise Violation("I32", f"{life.record.id} is in round {life.record.round} and shows {shown}")
        if has_succeeded and json.loads(shown.value)[2] != END:
            raise Violation("I32", f"{life.record.id} has ended and shows {shown}")
