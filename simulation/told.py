"""How programs publish progress, and its invariants: progress is stored with its step and never goes back.

A published value contains the round, the workflow's time and a mark of the place, so that two values can be compared.
"""

from __future__ import annotations

import functools
from datetime import timedelta

import msgspec

from durable.backends.base import Batch
from durable.model.records import Progress, WorkflowStatus
from durable.runner.determinism import info, now
from durable.runner.publishing import publish
from durable.testing.clock import NOON
from simulation.ledger import Ledger
from simulation.steps import program_of
from simulation.violation import Violation

BEGIN, END = "begin", "end"


def tell(mark: int | str) -> None:
    """Publish a value with this mark. Called in a workflow body."""
    publish([info().round, (now() - NOON) // timedelta(microseconds=1), mark])


def _when(progress: Progress) -> tuple[int, int]:
    round, at, _ = msgspec.json.decode(progress.value)
    return round, at


@functools.lru_cache(4096)
def _publishes(input: str) -> bool:
    """Whether a program publishes the beginning of each round, and its end."""
    return bool(program_of(input).settings.get("publishes"))


def i32_progress_does_not_go_back(ledger: Ledger, batch: Batch, now: int) -> None:
    """The progress of a workflow never becomes older."""
    for key, progress in batch.progress_put.items():
        before = ledger.progress.get(key)
        life = ledger.lives.get(key)
        if life is not None and (life.was_reopened or life.has_ended):
            # After a retry it may publish other values again, from an earlier step on.
            continue
        if before is not None and (progress.round, progress.seq) <= (before.round, before.seq):
            raise Violation("I32", f"workflow {key}: {progress} is stored after {before}")
        if before is not None and _when(progress) < _when(before):
            raise Violation("I32", f"workflow {key} shows {progress.value} after {before.value}")


def i32_progress_is_stored_with_its_step(ledger: Ledger, batch: Batch, now: int) -> None:
    """A workflow with an entry in a round shows progress of that round; one that has succeeded shows its end."""
    for key in {*batch.workflows_new, *batch.workflows_changed, *(key for key, _ in batch.history)}:
        life = ledger.lives[key]
        has_succeeded = life.record.status is WorkflowStatus.SUCCEEDED
        if not (life.seq or has_succeeded) or not _publishes(life.record.input):
            continue
        shown = ledger.progress.get(key)
        if shown is None or _when(shown)[0] != life.record.round:
            raise Violation("I32", f"{life.record.id} is in round {life.record.round} and shows {shown}")
        if has_succeeded and msgspec.json.decode(shown.value)[2] != END:
            raise Violation("I32", f"{life.record.id} has ended and shows {shown}")
