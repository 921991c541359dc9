"""The scripts of changes are not blind: each broken promise is noticed by the script that shows it.

Repairs are not part of the simulation, so these bugs are planted here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest

from durable.engine.decide.turn import Turn
from durable.engine.repair import fork, retry
from durable.engine.repair.retry import _Plan
from durable.errors import CodecError
from durable.model.records import EntryKind, EntryStatus, HistoryEntry, WorkflowRecord
from durable.runner import past
from durable.runner.fibers import WaitCondition
from durable.runner.past import Retried
from durable.runner.results import SessionResult, Suspended
from durable.runner.session import WorkflowSessionRunner
from durable.testing.faults import Fault
from tests.exhaustive.endings import ENDINGS
from tests.exhaustive.scripts import Script
from tests.exhaustive.scripts_of_changes import SCRIPTS_OF_CHANGES
from tests.exhaustive.test_points import Run
from tests.planted.planting import Planter

BY_NAME = {script.name: script for script in SCRIPTS_OF_CHANGES}
Plant = Callable[[Planter], None]


def failed_step_not_void(planter: Planter) -> None:
    """A retry runs the failed step again."""

    def _retried(record: WorkflowRecord, learnt: Sequence[HistoryEntry], seq: int, now: int) -> HistoryEntry:
        return HistoryEntry(seq, "", EntryKind.RETRIED, "retry", EntryStatus.OK, Retried([], 0).text(), now)

    planter.replace(retry, _retried)


def failed_child_left_behind(planter: Planter) -> None:
    """A child that made its parent fail is retried with it."""

    def _plan_child(turn: Turn, plan: _Plan, wait: WaitCondition) -> None:
        pass

    planter.replace(retry, _plan_child)


def cancelled_sibling_left_behind(planter: Planter) -> None:
    """A child that was cancelled because its parent failed starts over."""

    carry_out = retry._carry_out

    def _carry_out(turn: Turn, plan: _Plan) -> None:
        plan.restarted.clear()
        carry_out(turn, plan)

    planter.replace(retry, _carry_out)


def time_that_it_lay_failed_counts(planter: Planter) -> None:
    """Time spent FAILED does not count for the timeouts of steps."""

    def _resume_after(self: WorkflowSessionRunner, entry: HistoryEntry) -> SessionResult:
        self.now = max(self.now, entry.at_us)
        return self.interpreter.end or Suspended()

    planter.replace(WorkflowSessionRunner, _resume_after)


def retry_forgotten_by_a_restart(planter: Planter) -> None:
    """Entries that a retry made void stay void after a restart."""
    _effective(planter, lambda entries: [entry for entry in entries if entry.kind is not EntryKind.RETRIED])


def repair_forgotten_by_a_restart(planter: Planter) -> None:
    """A replaced result stays replaced."""
    _effective(planter, lambda entries: [entry for entry in entries if entry.kind is not EntryKind.REPAIRED])


def _effective(planter: Planter, change: Callable[[Iterable[HistoryEntry]], list[HistoryEntry]]) -> None:
    honest = past.effective

    def effective(entries: Sequence[HistoryEntry]) -> list[HistoryEntry]:
        return honest(change(entries))

    planter.replace(past, effective)


def fork_knows_one_thing_too_many(planter: Planter) -> None:
    """A fork copies the entries before the position, and none at it."""
    before = fork._before

    def _before(recorded: list[HistoryEntry], position: str) -> list[HistoryEntry] | None:
        copied = before(recorded, position)
        return None if copied is None else recorded[: len(copied) + 1]

    planter.replace(fork, _before)


def wrong_name_passed_over(planter: Planter) -> None:
    """`removed` skips only entries with the name of the removed step; any other is a divergence."""
    aside = WorkflowSessionRunner._feed_aside

    def _feed_aside(self: WorkflowSessionRunner, entry: HistoryEntry, wait: WaitCondition | None) -> SessionResult:
        if wait is not None and wait.kind is EntryKind.REMOVED:
            wait.name = entry.name
        return aside(self, entry, wait)

    planter.replace(WorkflowSessionRunner, _feed_aside)


BUGS: dict[Plant, str] = {
    failed_step_not_void: "retry",
    failed_child_left_behind: "retry",
    cancelled_sibling_left_behind: "retry",
    time_that_it_lay_failed_counts: "retry",
    retry_forgotten_by_a_restart: "retry",
    repair_forgotten_by_a_restart: "repair",
    fork_knows_one_thing_too_many: "fork",
    wrong_name_passed_over: "step removed under a wrong name",
}


def _ends_well(script: Script) -> bool:
    """Whether a script ends as it must, with a crash at each commit and without one."""
    plans: list[dict[int, Fault]] = [{}, *({commit: Fault.CRASH_AFTER} for commit in range(1, script.commits + 1))]
    for plan in plans:
        try:
            records = Run(script, plan).outcome()["workflows"]
        except (AssertionError, CodecError):
            return False
        if {id: record[3] or record[1].value for id, record in records.items()} != ENDINGS[script.name][0]:
            return False
    return True


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_noticed(plant: Plant) -> None:
    """The script that shows a promise fails if the promise is broken, and passes if it is kept."""
    script = BY_NAME[BUGS[plant]]
    planter = Planter()
    try:
        plant(planter)
        assert planter.replaced
        assert not _ends_well(script), plant.__doc__
    finally:
        planter.undo()
    assert _ends_well(script)
