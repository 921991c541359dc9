"""Pure decisions: what goes on after a start, and who is not trusted.

Recovery loads what is running and looks again at what is parked. Sleeping workflows and those that wait for events are
not touched: their timers are in the store's index, and by the rule of `delivery` no event that they could take is
pending.

After an unclean stop every workflow that was in work has its crash counted, in a commit of its own, before it is
loaded. One that had a crash counted before is a suspect, and suspects are tried one at a time, after the others.
"""

from __future__ import annotations

from durable.backends.base import Workflows
from durable.clock import SECOND
from durable.engine.endings import park
from durable.engine.operations import Follow, RecoverWorkflows, ResumeWorkflow, WakeWorkflow
from durable.engine.progress import last_seq, load
from durable.engine.turn import Turn
from durable.engine.views import RecoveryReport
from durable.records import ParkReason, WorkflowRecord, WorkflowStatus

_PAGE = 200
# How long a suspect holds up the next one if it neither makes progress nor ends.
_TRIAL = 5 * SECOND


def decide_recover_workflows(turn: Turn, op: RecoverWorkflows) -> RecoveryReport:
    """Look over one page of running and parked workflows. Harmless when repeated: what is loaded is left alone."""
    statuses = (WorkflowStatus.RUNNING, WorkflowStatus.PARKED)
    page = turn.state.backend.find(Workflows(statuses=statuses, after=op.after, limit=_PAGE))
    report = RecoveryReport()
    for stored in page:
        record = turn.state.by_key(stored.key)
        if record is None or record.key in turn.state.loaded or record.status.is_terminal:
            continue
        report += _recover(turn, record)
    after = page[-1].key if len(page) == _PAGE else None
    return report + RecoveryReport(next_after=after)


def _recover(turn: Turn, record: WorkflowRecord) -> RecoveryReport:
    if record.status is WorkflowStatus.PARKED:
        # A workflow that took the process down stays parked until an operator decides.
        if record.park_reason is ParkReason.CRASHED:
            return RecoveryReport(parked=1)
        if _must_count(turn, record):
            # Rebuilding it may be what takes the process down, so this is counted first as well.
            return _count_crash(turn, record)
        if load(turn, record) is None:
            return RecoveryReport(parked=1)
        return RecoveryReport(unparked=1)
    if not _must_count(turn, record):
        turn.effects.append(Follow(ResumeWorkflow(record.key)))
        return RecoveryReport(resumed=1)
    return _count_crash(turn, record)


def _must_count(turn: Turn, record: WorkflowRecord) -> bool:
    """Whether this workflow was there at an unclean stop; one that began later did not cause it."""
    trials = turn.state.trials
    return trials.unclean and record.key <= trials.opened_serial


def _count_crash(turn: Turn, record: WorkflowRecord) -> RecoveryReport:
    """The first crash is counted at once; a suspect waits for its trial."""
    trials = turn.state.trials
    if record.key in trials.vetted:
        # Counted for this start already; its body was only let go of since.
        turn.effects.append(Follow(ResumeWorkflow(record.key)))
        return RecoveryReport(resumed=1)
    if record.crashes or trials.current is not None:
        # Also one without a crash while another is on trial: whoever dies then must have been alone.
        if record.key not in trials.waiting and record.key != trials.current:
            trials.waiting[record.key] = None
        return RecoveryReport(suspects=1)
    trials.fresh.append(record.key)
    trials.until = turn.now + _TRIAL
    _blame(turn, record)
    return RecoveryReport(resumed=1)


def _blame(turn: Turn, record: WorkflowRecord) -> None:
    """Count a crash; the workflow is loaded in the next batch, when the count is committed."""
    crashes = record.crashes + 1
    if crashes >= turn.state.config.max_crashes:
        park(turn, record, ParkReason.CRASHED, f"was in work at {crashes} unclean stops in a row")
        return
    turn.state.put(record.with_status(record.status, crashes=crashes), record)
    turn.state.trials.vetted.add(record.key)
    # A timer that was put off is no longer in the window, whether the workflow sleeps or has an activity as well.
    has_timer = record.wake_at is not None
    turn.effects.append(Follow(WakeWorkflow(record.key) if has_timer else ResumeWorkflow(record.key)))


def must_wait(turn: Turn, op: WakeWorkflow) -> bool:
    """Whether a timer that was overdue at an unclean start must first have its crash counted.

    Without this a workflow that kills the process as soon as its timer fires would do so for ever.
    """
    trials = turn.state.trials
    if not trials.unclean or op.key in trials.vetted or op.key in turn.state.loaded:
        return False
    record = turn.state.by_key(op.key)
    if record is None or record.wake_at is None or record.wake_at > trials.opened_at or record.status.is_terminal:
        return False
    if not _must_count(turn, record):
        # It began later, and the clock was set back since the start.
        return False
    _count_crash(turn, record)
    return True


def _is_in_work(record: WorkflowRecord) -> bool:
    return not record.status.is_terminal and record.park_reason is not ParkReason.CRASHED


def _is_untried(turn: Turn, key: int) -> bool:
    """Whether a workflow that may be to blame has not shown yet that it is not."""
    record = turn.state.by_key(key)
    return record is not None and record.crashes > 0 and _is_in_work(record)


def admit_suspect(turn: Turn) -> None:
    """Let the next suspect go on trial once the last one has made progress, ended, or had its time."""
    trials = turn.state.trials
    if not trials.waiting:
        return
    # Those that came back together have their chance first: one of them may be what takes the process down.
    while trials.fresh and not (_is_untried(turn, trials.fresh[0]) and turn.now < trials.until):
        trials.fresh.popleft()
    if trials.fresh:
        return
    if trials.current is not None:
        if _is_untried(turn, trials.current) and turn.now < trials.until:
            return
        trials.current = None
    while trials.waiting and trials.current is None:
        key, woken_at = trials.waiting.popitem(last=False)
        record = turn.state.by_key(key)
        if record is None or not _is_in_work(record):
            continue
        if woken_at is not None and woken_at != (record.round, last_seq(turn.state.chronicle.of(key))):
            # Woken by an event, an answer or a child, it has made progress. Only its timer was put off.
            trials.vetted.add(key)
            turn.state.timers.move(key, record.wake_at, record.wake_at)
        else:
            trials.current = record.key
            trials.until = turn.now + _TRIAL
            _blame(turn, record)
