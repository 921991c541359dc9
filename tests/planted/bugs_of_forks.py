"""Planted bugs: forks by operators, and what a fork must not copy."""

from __future__ import annotations

from collections.abc import Sequence

from durable.engine.decide.dry_run import Tried
from durable.engine.decide.turn import Turn
from durable.engine.repair import fork
from durable.model.records import HistoryEntry, WorkflowRecord
from durable.runner.undo import Owed
from tests.planted.planting import Planter, bug


@bug("I36", seed=3)
def fork_copies_too_much(planter: Planter) -> None:
    """The step at which a workflow is forked runs again: nothing of it is copied."""
    before = fork._before

    def _before(recorded: list[HistoryEntry], position: str) -> list[HistoryEntry] | None:
        copied = before(recorded, position)
        return None if copied is None else recorded[: len(copied) + 1]

    planter.replace(fork, _before)


@bug("I36", seed=5)
def fork_copies_too_little(planter: Planter) -> None:
    """Every step before the fork is copied and does not run again."""
    before = fork._before

    def _before(recorded: list[HistoryEntry], position: str) -> list[HistoryEntry] | None:
        copied = before(recorded, position)
        return None if copied is None else copied[:-1]

    planter.replace(fork, _before)


@bug("I36", seed=56)
def fork_behind_what_was_undone(planter: Planter) -> None:
    """A fork is refused if it would copy a step that its source has undone since."""

    def _undone_since(turn: Turn, source: WorkflowRecord, cut: Sequence[HistoryEntry], tried: Tried) -> Owed | None:
        return None

    planter.replace(fork, _undone_since)
