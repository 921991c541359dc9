"""Recovery after a start: which workflows run again, and which one caused the last crash.

Recovery loads workflows that are running, and tries parked ones again. Sleeping workflows and those that wait for
events are not touched: their timers are in the store's index, and no event that they could take is pending (`events`).

After an unclean stop, `begin_trials` first decides which workflow may have caused it:

1. The mark shows that a body was running: the crash counts against its workflow and no other. The count is cleared when
   the body survives the step in which it died (`Deaths`), or by an orderly stop.
   If that body's workflow was not stored yet, no workflow can be blamed. From then on, until an orderly stop, workflows
   are stored before they run, so that the mark leads to a stored workflow if it happens again.
2. Otherwise, workflows were on trial: they are the accused. If there is only one, the crash counts against it. If there
   are more, one half is admitted and the other half waits (`Trials`).
3. Otherwise, every workflow that has an activity now is a suspect, and all are tried together.

A workflow that took the process down `max_crashes` times is parked. New workflows are not delayed by any of this.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from durable.backends.base import Opened, Suspects
from durable.engine.decide.body import load
from durable.engine.decide.endings import park
from durable.engine.decide.turn import Turn
from durable.engine.operations import Follow, ReadRecovery, RecoverNext, RecoverWorkflows, ResumeWorkflow
from durable.engine.operations.log_lines import Tell, about
from durable.engine.operations.views import RecoveryReport
from durable.engine.state.crashes import WHAT, WHERE, is_over
from durable.engine.state.state import State
from durable.model.clock import LATEST
from durable.model.records import ParkReason, WorkflowRecord, WorkflowStatus

# A small page: each workflow may have to be rebuilt, and callers wait for the batch.
_PAGE = 50
# How many suspects a log line names.
_NAMED = 5


def begin_trials(turn: Turn, opened: Opened) -> None:
    """The store was opened: count the last crash, if there was one, against the workflow that caused it.

    Committed before anything else happens, so that the count survives if the process dies again at once.
    """
    state, trials = turn.state, turn.state.trials
    suspects = dict(state.backend.find(Suspects()))
    state.deaths.read(opened.mark)
    accused: dict[int, int] = {}
    if opened.clean:
        _forgive(turn)
    else:
        trials.is_on, trials.last_key = True, opened.serial
        accused = {key: crashes for key, crashes in suspects.items() if _is_running(turn, key)}
        trials.stores_first = bool(opened.mark[1])
        if opened.marked:
            # The body killed the process, so this crash proves nothing about those on trial: they stay accused.
            _blame_body(turn, opened.marked, opened.mark[WHERE], opened.mark[WHAT])
        elif len(accused) == 1:
            accused = _blame_alone(turn, *accused.popitem())
    trials.accused = accused
    trials.first = frozenset(sorted(accused)[: (len(accused) + 1) // 2])
    for key in suspects.keys() - trials.first:
        trials.acquit(key)
    _note_missing_code(turn)
    if accused:
        turn.effects.append(_suspicion(turn, accused, trials.first))


def _forgive(turn: Turn) -> None:
    """The last engine stopped in order: earlier crashes no longer count.

    Except for bodies whose code that engine did not have: it never ran them, so its stop proves nothing about them.
    """
    deaths = turn.state.deaths
    for key in sorted(deaths.steps.keys() - deaths.codeless):
        deaths.forget(key)
        record = turn.state.readable(key)
        if record is None or record.status.is_terminal or record.park_reason is ParkReason.CRASHED:
            continue
        turn.state.workflows.count_crashes(record, 0)


def _note_missing_code(turn: Turn) -> None:
    """Note for the next engine which bodies this engine cannot run, because it does not have their code."""
    deaths = turn.state.deaths
    records = {key: turn.state.readable(key) for key in deaths.steps}
    has = turn.state.registry.has
    deaths.codeless = {key for key, record in records.items() if record and not has(record.name, record.version)}


def trials_begun(state: State) -> None:
    """What `begin_trials` has decided is committed: the crash is counted, so clear the mark for the next one."""
    state.mark[0], state.mark[1] = 0, int(state.trials.stores_first)
    state.deaths.write()


def _suspicion(turn: Turn, accused: Mapping[int, int], first: frozenset[int]) -> Tell:
    """The log line that names the suspects: a few in the text, all of them in the extra fields."""
    records = [turn.state.readable(key) for key in sorted(accused)]
    ids = [record.id for record in records if record is not None]
    if len(ids) == 1:
        text = f"the process died when workflow {ids[0]} began an activity; it is on trial"
    else:
        shown = ", ".join(ids[:_NAMED]) + (f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else "")
        text = f"the process died when {len(ids)} workflows began activities ({shown}); {len(first)} of them run first"
    return Tell(logging.WARNING, text, {"workflow_ids": ids})


def _is_running(turn: Turn, key: int) -> bool:
    record = turn.state.readable(key)
    return record is not None and record.status is WorkflowStatus.RUNNING


def _blame_body(turn: Turn, key: int, where: int, fed: int) -> None:
    """A body was running when the process died: count the crash. Its workflow may not have been stored."""
    record = turn.state.readable(key)
    if record is None:
        # Stays set whatever the next crash is: the same workflow may be started again at any time.
        turn.state.trials.stores_first = True
        text = "the process died in the first step of a workflow that was not stored yet; to find it, new workflows"
        turn.effects.append(Tell(logging.WARNING, f"{text} are stored before they run until an orderly stop", {}))
        return
    if record.status.is_terminal or record.park_reason is ParkReason.CRASHED:
        return
    crashes = turn.state.deaths.note(key, where, fed, record.crashes)
    limit = turn.state.config.max_crashes
    text = f"the process died while the body of workflow {record.id} ({record.name}) ran: crash {crashes} of {limit}"
    turn.effects.append(Tell(logging.WARNING, text, about(record)))
    if crashes >= limit:
        _park(turn, record, f"the process died {crashes} times in a row while its body ran")
    else:
        turn.state.workflows.count_crashes(record, crashes)


def _blame_alone(turn: Turn, key: int, crashes: int) -> dict[int, int]:
    """Count a crash against the only accused. Returns the accused with its count; empty if it was parked for that."""
    record = turn.state.by_key(key)
    if record is None or crashes + 1 < turn.state.config.max_crashes:
        return {key: crashes + 1}
    _park(turn, record, f"the process died {crashes + 1} times in a row when it began an activity")
    return {}


def _park(turn: Turn, record: WorkflowRecord, problem: str) -> None:
    """Park a workflow that takes the process down. Only an operator can let it run again."""
    counted = turn.state.workflows.count_crashes(record, turn.state.config.max_crashes)
    park(turn, counted, ParkReason.CRASHED, f"{problem}; find out why, then retry it, or terminate it")


# --- looking over what is stored ----------------------------------------------------------------------------------


def decide_recover_workflows(turn: Turn, op: RecoverWorkflows) -> RecoveryReport:
    """Recover one page of running and parked workflows. Idempotent: loaded workflows are left alone."""
    return _look_over(turn, op.after, op.until)


def decide_recover_next(turn: Turn, op: RecoverNext) -> None:
    """Recover the next page of this start."""
    report = turn.state.recovery
    turn.state.recovery = report + _look_over(turn, report.next_after or 0, report.until)


def _look_over(turn: Turn, after: int, until: int | None) -> RecoveryReport:
    """Recover a page of the running and parked workflows with a key above `after` and at most `until`."""
    until = turn.state.serial if until is None else until
    page = turn.state.recover_workflows(after, _PAGE)
    report = RecoveryReport()
    for stored in page:
        if stored.key > until:
            break
        if stored.is_damaged:
            # It cannot run until an operator has repaired its row, and nothing may be written to it before that.
            report += RecoveryReport(parked=1)
            continue
        record = turn.state.by_key(stored.key)
        if record is not None and record.key not in turn.state.loaded and not record.status.is_terminal:
            report += _recover(turn, record)
    if len(page) == _PAGE and page[-1].key < until:
        return report + RecoveryReport(next_after=page[-1].key, until=until)
    if turn.state.trials.is_looking:
        turn.state.trials.looked_over()
    return report


def decide_read_recovery(turn: Turn, op: ReadRecovery) -> RecoveryReport:
    """The counts of this start's recovery."""
    return turn.state.recovery


def _recover(turn: Turn, record: WorkflowRecord) -> RecoveryReport:
    """Load one workflow, unless it is a suspect that must wait for its group. Returns how it counts in the report."""
    trials = turn.state.trials
    # A workflow that took the process down stays parked until an operator decides.
    if record.park_reason is ParkReason.CRASHED:
        return RecoveryReport(parked=1)
    is_suspect = trials.is_on and record.status is WorkflowStatus.RUNNING and record.key <= trials.last_key
    if is_suspect and (record.key in trials.waiting or (trials.is_looking and trials.hold(record.key))):
        return RecoveryReport(suspects=1)
    load(turn, record)
    current = turn.state.by_key(record.key)
    if current is not None and current.status is WorkflowStatus.PARKED:
        return RecoveryReport(parked=1)
    return RecoveryReport(unparked=1) if record.status is WorkflowStatus.PARKED else RecoveryReport(resumed=1)


def hold_trials(turn: Turn) -> None:
    """Acquit suspects whose trial is over, and admit the next group. Part of every batch while there are suspects."""
    trials = turn.state.trials
    trials.end(turn.now)
    trials.set_time(turn.now)
    while trials.is_on and trials.admit_at != LATEST and is_over(trials.admit_at, turn.now):
        if not trials.groups:
            # Suspects that have not begun an activity yet are not tried for one that begins later.
            trials.waiting.clear()
            trials.is_on = False
            break
        turn.effects += [Follow(ResumeWorkflow(key)) for key in trials.admit_group()]
