"""What runs again after a start, and who is trusted to.

Recovery loads what is running and looks again at what is parked. Sleeping workflows and those that wait for events are
not touched: their timers are in the store's index, and by the rule of `delivery` no event that they could take is
pending.

After an unclean stop the question is who caused it. In this order, before anything else happens (`begin_trials`):

1. A body was running: it is marked, and the crash counts against its workflow. The others have nothing to do with it.
   The count ends when it survives the step in which it died (`deaths`), or with an orderly stop.
   A body that died in its first step, before its workflow was stored, leaves nobody to blame. From then on, up to the
   next orderly stop, workflows are stored before they run, so that it is known if it dies again.
2. Workflows were on trial: they are the accused. One that is accused alone has its crash counted; otherwise half of
   them are admitted, the other half waits (`trials`).
3. Nobody was: whoever has an activity now may have been it, and all are tried together.

A workflow that took the process down `max_crashes` times is parked. Nothing here slows down new work.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from durable.backends.base import Opened, Suspects
from durable.engine.decide.body import load
from durable.engine.decide.endings import park
from durable.engine.decide.turn import Turn
from durable.engine.operations import BeginAttempt, Follow, ReadRecovery, RecoverNext, RecoverWorkflows, ResumeWorkflow
from durable.engine.operations.log_lines import Tell, about
from durable.engine.operations.views import RecoveryReport
from durable.engine.state.deaths import WHAT, WHERE
from durable.engine.state.state import State
from durable.engine.state.trials import is_over
from durable.model.clock import LATEST
from durable.model.records import ParkReason, WorkflowRecord, WorkflowStatus

# Few at a time: each may have to be rebuilt, and whoever calls meanwhile waits for the batch.
_PAGE = 50
# How many suspects a line of the log names.
_NAMED = 5


def begin_trials(turn: Turn, opened: Opened) -> None:
    """The store was opened: count the last crash, if there was one, against whoever caused it."""
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
            # It says nothing about those on trial: they stay accused as they were.
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
    """The last engine stopped in order: crashes before that are not in a row with those to come.

    Where it had no code for a body, its stop says nothing about that body.
    """
    deaths = turn.state.deaths
    for key in sorted(deaths.steps.keys() - deaths.codeless):
        deaths.forget(key)
        record = turn.state.readable(key)
        if record is None or record.status.is_terminal or record.park_reason is ParkReason.CRASHED:
            continue
        turn.state.workflows.count_crashes(record, 0)


def _note_missing_code(turn: Turn) -> None:
    """Note for the next engine about which bodies this one can say nothing."""
    deaths = turn.state.deaths
    records = {key: turn.state.readable(key) for key in deaths.steps}
    has = turn.state.registry.has
    deaths.codeless = {key for key, record in records.items() if record and not has(record.name, record.version)}


def trials_begun(state: State) -> None:
    """What `begin_trials` has decided is committed: the crash is counted, and the mark is free for the next one."""
    state.mark[0], state.mark[1] = 0, int(state.trials.stores_first)
    state.deaths.write()


def _suspicion(turn: Turn, accused: Mapping[int, int], first: frozenset[int]) -> Tell:
    """The line that says who is on trial. It names a few; all of them are in its extra fields."""
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


def _blame_body(turn: Turn, key: int, where: int, what: int) -> None:
    """A body ran when the process died. Its workflow may be gone too, if its start was not committed."""
    record = turn.state.readable(key)
    if record is None:
        # Whatever the process dies of next: the one that was not stored may come again in any life.
        turn.state.trials.stores_first = True
        text = "the process died in the first step of a workflow that was not stored yet; to find it, new workflows"
        turn.effects.append(Tell(logging.WARNING, f"{text} are stored before they run until an orderly stop", {}))
        return
    if record.status.is_terminal or record.park_reason is ParkReason.CRASHED:
        return
    crashes = turn.state.deaths.note(key, where, what, record.crashes)
    limit = turn.state.config.max_crashes
    text = f"the process died while the body of workflow {record.id} ({record.name}) ran: crash {crashes} of {limit}"
    turn.effects.append(Tell(logging.WARNING, text, about(record)))
    if crashes >= limit:
        _park(turn, record, f"the process died {crashes} times in a row while its body ran")
    else:
        turn.state.workflows.count_crashes(record, crashes)


def _blame_alone(turn: Turn, key: int, crashes: int) -> dict[int, int]:
    """Count a crash against the only one accused; empty if that was one too many, and it is parked."""
    record = turn.state.by_key(key)
    if record is None or crashes + 1 < turn.state.config.max_crashes:
        return {key: crashes + 1}
    _park(turn, record, f"the process died {crashes + 1} times in a row when it began an activity")
    return {}


def _park(turn: Turn, record: WorkflowRecord, problem: str) -> None:
    """Set a workflow aside that takes the process down; only an operator lets it run again."""
    counted = turn.state.workflows.count_crashes(record, turn.state.config.max_crashes)
    park(turn, counted, ParkReason.CRASHED, f"{problem}; find out why, then retry it, or terminate it")


# --- looking over what is stored ----------------------------------------------------------------------------------


def decide_recover_workflows(turn: Turn, op: RecoverWorkflows) -> RecoveryReport:
    """Look over one page of running and parked workflows. Harmless when repeated: what is loaded is left alone."""
    return _look_over(turn, op.after, op.until)


def decide_recover_next(turn: Turn, op: RecoverNext) -> None:
    """Look over the next page of this start."""
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
            # It cannot run until somebody has put its row right, and nothing may be written to it before that.
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
    """What the recovery of this start came to."""
    return turn.state.recovery


def _recover(turn: Turn, record: WorkflowRecord) -> RecoveryReport:
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


# --- while suspects run -------------------------------------------------------------------------------------------


def decide_begin_attempt(turn: Turn, op: BeginAttempt) -> None:
    """An activity of a suspect has begun: its trial ends a moment from now."""
    turn.state.trials.begin(op.key, turn.now)


def hold_trials(turn: Turn) -> None:
    """Acquit those whose trial is over, and admit the next group. Part of every batch while there are suspects."""
    trials = turn.state.trials
    trials.end(turn.now)
    trials.set_time(turn.now)
    while trials.is_on and trials.admit_at != LATEST and is_over(trials.admit_at, turn.now):
        if not trials.groups:
            # Whoever has not begun an activity by now is not tried for one that begins later.
            trials.waiting.clear()
            trials.is_on = False
            break
        turn.effects += [Follow(ResumeWorkflow(key)) for key in trials.admit_group()]
