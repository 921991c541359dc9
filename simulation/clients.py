"""Clients: each does its acts one after the other, and repeats a call that was not answered when the engine died.

What an answer promises is checked at the moment it arrives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from durable.engine.coordinator.inbox import Envelope
from durable.engine.operations import (
    AwaitChange,
    AwaitEnd,
    CancelWorkflow,
    CreateSchedule,
    DeleteSchedule,
    DescribeWorkflow,
    FindWorkflow,
    ForkWorkflow,
    ListLetters,
    Operation,
    PauseSchedule,
    ReadHistory,
    ReplayLetter,
    ResumeSchedule,
    RetryWorkflow,
    SendEvent,
    Sight,
    StartWorkflow,
    TerminateWorkflow,
    TriggerSchedule,
)
from durable.errors import (
    CannotFork,
    CannotRetry,
    DeadLetterNotFound,
    NotAcrossShards,
    ScheduleBusy,
    ScheduleNotFound,
    WorkflowAlreadyExists,
    WorkflowNotFound,
    WorkflowTerminated,
)
from durable.model.ids import digest
from durable.model.records import WorkflowStatus
from durable.model.schedule import CatchUp, Job, Overlap, Plan
from durable.runner.events import event_key
from simulation.agenda import MILLISECOND, Agenda
from simulation.callers import Caller, home_of_act
from simulation.checker import Checker
from simulation.dice import Dice
from simulation.kinds import event_of, payload_of
from simulation.process import CODEC, Process
from simulation.rows import simulated
from simulation.scenario import Act, Verb
from simulation.violation import Violation

# How often a client looks again for a workflow that is not started yet.
_TRIES = 40
_SENDING = (Verb.SEND, Verb.REPLAY)
_WITH_CODE = (Verb.START, Verb.SCHEDULE)
_REPAIRS = (Verb.RETRY, Verb.FORK)


class Client(Caller):
    """One caller."""

    def __init__(self, acts: list[Act], *, agenda: Agenda, dice: Dice, checker: Checker) -> None:
        super().__init__()
        self._acts = deque(acts)
        self._agenda = agenda
        self._dice = dice
        self._checker = checker
        self._tries = 0
        # When the call was made first, and what was answered then.
        self._first_call: int | None = None
        self._first_reply: Any = None
        # What a watcher was shown last.
        self._seen: Sight | None = None
        # Whether the workflow that is called for was known to be started before the call.
        self._was_started = False
        self._schedule(acts[0].at * MILLISECOND)

    def _schedule(self, delay: int) -> None:
        self._agenda.add(delay, self._call)

    def _soon(self) -> int:
        return self._dice.below(2_000) * MILLISECOND

    # --- calling ----------------------------------------------------------------------------------------------------

    def ask_again(self) -> None:
        """The engine has died before it has answered."""
        self._schedule(self._soon())

    def _call(self) -> None:
        act = self._acts[0]
        process = self.engine(home_of_act(act, self._checker.ledger.shards))
        if process is None:
            self._schedule(self._soon())
            return
        if act.verb in _WITH_CODE and not process.has_code:
            # Who calls it has it loaded: this comes from a process that has the code.
            self._schedule(self._soon())
            return
        if act.verb in _REPAIRS and not self._is_ripe(act):
            self._tries += 1
            self._schedule(self._soon())
            return
        if self._is_too_late(act):
            self._next()
            return
        self._process = process
        self._was_started = act.id in self._checker.started
        if act.verb in (Verb.CANCEL, Verb.TERMINATE) and act.id is not None:
            self._checker.unwanted.add(act.id)
            if act.verb is Verb.TERMINATE:
                self._checker.ledger.axed.add(act.id)
        if act.verb is Verb.RETRY:
            self._checker.mending(act.id or "")
        if act.verb is Verb.REPLAY:
            process.ask(ListLetters(0, 1), lambda envelope: self._replay(process, act, envelope))
        elif act.verb is Verb.FORK:
            process.ask(ForkWorkflow(act.id or "", self._position(act), act.run), self._answered)
        elif act.verb is Verb.WATCH:
            process.ask(AwaitChange(act.id or "", self._seen), self._shown)
        else:
            process.ask(operation_of(act), self._answered)

    def _is_ripe(self, act: Act) -> bool:
        """Whether an operator retries a workflow now: most wait until it has failed or is parked, for some time.

        Who forks waits until there is something to copy.
        """
        life = self._checker.ledger.life(act.id)
        if act.verb is Verb.FORK:
            return (life is not None and bool(life.entries)) or self._tries >= _TRIES
        needs_help = life is not None and life.record.status in (WorkflowStatus.FAILED, WorkflowStatus.PARKED)
        return needs_help or act.is_early or self._tries >= _TRIES

    def _position(self, act: Act) -> str:
        """Where a fork begins: at a step that is recorded, if there is one."""
        life = self._checker.ledger.life(act.id)
        recorded = [] if life is None else [entry.position for entry in life.entries if entry.position]
        return recorded[act.number % len(recorded)] if recorded else "0"

    def _is_too_late(self, act: Act) -> bool:
        """Whether the engine may have forgotten that an event was sent before: then nobody sends it again."""
        now = self._agenda.now()
        if self._first_call is None:
            self._first_call = now
        return act.verb is Verb.SEND and now - self._first_call > self._checker.ledger.mail.retention // 2

    def _replay(self, process: Process, act: Act, envelope: Envelope) -> None:
        if envelope.reply:
            process.ask(ReplayLetter(envelope.reply[0].id, act.id), self._answered)
        else:
            self._next()

    def _next(self) -> None:
        act = self._acts.popleft()
        self._process = None
        self._tries = 0
        self._first_call = self._first_reply = None
        if self._acts:
            self._schedule(max(0, self._acts[0].at - act.at) * MILLISECOND)

    def unanswered(self) -> Act | None:
        """The call whose answer is still to come."""
        if self._process is not None and self._seen is not None:
            # It has missed nothing while it waits.
            self._checker.watched(self._acts[0].id or "", self._seen)
        return None if self._process is None else self._acts[0]

    def _shown(self, envelope: Envelope) -> None:
        """A watcher is told of a change, and watches on until the end."""
        act, sight = self._acts[0], envelope.reply
        if envelope.error is not None:
            self._answered(envelope)
            return
        self._checker.watched(act.id or "", sight)
        if sight.status.is_terminal:
            self._seen = None
            self._next()
            return
        if sight == self._seen:
            raise Violation("I5", f"{act.id} was shown as {sight} twice")
        self._seen = sight
        self._process = None
        self._schedule(self._soon())

    # --- answers ----------------------------------------------------------------------------------------------------

    def _answered(self, envelope: Envelope) -> None:
        act = self._acts[0]
        self._checker.trace.note(f"{act.verb.value} {act.id} {act.event_id} {type(envelope.error).__name__}")
        if envelope.error is not None:
            self._refused(act, envelope.error)
            return
        if envelope.reply is None and self._was_started and act.verb not in _REPAIRS:
            raise Violation("I1", f"{act.id} was started, and {act.verb.value} does not find it")
        _ANSWERS[act.verb](self._checker, act, envelope.reply)
        if act.is_repeated and self._first_reply is None:
            # Sent again under its id after it was acknowledged: the answer must be the same.
            self._first_reply = envelope.reply
            self._process = None
            self._schedule(self._soon())
            return
        if self._first_reply is not None and self._first_reply != envelope.reply:
            raise Violation("I16", f"{act.event_id} was answered {self._first_reply}, then {envelope.reply}")
        self._next()

    def _refused(self, act: Act, error: BaseException) -> None:
        if isinstance(error, WorkflowNotFound) and self._was_started:
            raise Violation("I1", f"{act.id} was started, and {act.verb.value} does not find it")
        if isinstance(error, WorkflowNotFound) and self._tries < _TRIES:
            # It is not started yet.
            self._tries += 1
            self._first_call = None
            self._process = None
            self._schedule(self._soon())
            return
        if not self._is_right(act, error):
            raise Violation("I2", f"{act.verb.value} of {act.id} was refused: {error!r}")
        self._next()

    def _is_right(self, act: Act, error: BaseException) -> bool:
        """Whether a refusal is one that the act can meet, and true."""
        life = self._checker.ledger.life(act.id)
        if isinstance(error, WorkflowTerminated):
            return act.verb in _SENDING and life is not None and (life.has_ended or life.was_reopened)
        if isinstance(error, WorkflowAlreadyExists):
            return life is not None and life.record.start_digest != digest(simulated.name, arguments_of(act))
        if isinstance(error, DeadLetterNotFound):
            return act.verb is Verb.REPLAY
        if isinstance(error, NotAcrossShards):
            return act.verb is Verb.FORK and self._checker.ledger.shards > 1
        if isinstance(error, ScheduleNotFound | ScheduleBusy):
            schedule = self._checker.ledger.schedule(act.id)
            if isinstance(error, ScheduleNotFound) or schedule is None:
                return schedule is None
            return act.verb is Verb.TRIGGER_SCHEDULE and schedule.job.overlap is not Overlap.ALLOW
        return isinstance(error, WorkflowNotFound)


def arguments_of(act: Act) -> str:
    """The arguments of a started workflow, as they are stored."""
    return simulated.coder(CODEC).pack_arguments((act.program, []), {})


def job_of(act: Act) -> Job:
    """What a schedule is to do."""
    return Job(
        plan=Plan.of(act.cron or None, act.every or None),
        workflow=simulated.name,
        input=arguments_of(act),
        overlap=Overlap[act.overlap],
        catch_up=CatchUp[act.catch_up],
    )


def operation_of(act: Act) -> Operation[Any]:
    """What the façade of the engine would make of an act."""
    id = act.id or ""
    match act.verb:
        case Verb.START:
            text, delay = arguments_of(act), act.delay * MILLISECOND
            return StartWorkflow(id=id, name=simulated.name, input=text, definition=simulated, delay=delay)
        case Verb.SEND:
            event = event_of(act.event)
            return SendEvent(
                name=act.event,
                event_key=event_key(act.key),
                payload=payload_of(act.event_id),
                to=act.id,
                # A child may start at any time or never; the others are known to be started.
                allow_unstarted=act.is_early,
                consume=event.consume_on_read,
                expire_after=event.expire_after_us,
                event_id=act.event_id,
            )
        case Verb.SCHEDULE:
            return CreateSchedule(name=id, job=job_of(act), definition=simulated)
        case Verb.TRIGGER_SCHEDULE:
            return TriggerSchedule(id, act.run)
        case _:
            return _BY_ID[act.verb](id)


_BY_ID: dict[Verb, Callable[[str], Operation[Any]]] = {
    Verb.CANCEL: CancelWorkflow,
    Verb.TERMINATE: TerminateWorkflow,
    Verb.RETRY: RetryWorkflow,
    Verb.AWAIT: AwaitEnd,
    Verb.FIND: FindWorkflow,
    Verb.DESCRIBE: DescribeWorkflow,
    Verb.HISTORY: ReadHistory,
    Verb.PAUSE_SCHEDULE: PauseSchedule,
    Verb.RESUME_SCHEDULE: ResumeSchedule,
    Verb.DELETE_SCHEDULE: DeleteSchedule,
}


# --- what an answer promises ----------------------------------------------------------------------------------------


def _started(checker: Checker, act: Act, reply: Any) -> None:
    life = checker.seen(reply)
    checker.started.add(reply.id)
    if reply.round == 0 and reply.start_at - reply.created_at != act.delay * MILLISECOND:
        raise Violation("I19", f"{act.id} was to be delayed by {act.delay} ms: {reply}")
    if life.record.start_digest != digest(simulated.name, arguments_of(act)):
        raise Violation("I2", f"the start of {act.id} was acknowledged, but it runs another program")


def _sent(checker: Checker, act: Act, reply: Any) -> None:
    checker.accepted(act.event_id)


def _cancelled(checker: Checker, act: Act, reply: Any) -> None:
    checker.cancelled(act.id or "", reply)


def _cancelled_again(checker: Checker, act: Act, reply: Any) -> None:
    checker.cancelled(act.id or "", reply)
    if reply:
        checker.cancelled_again(act.id or "")


def _retried(checker: Checker, act: Act, reply: Any) -> None:
    if reply is not None and not isinstance(reply, CannotRetry):
        raise Violation("I2", f"retry of {act.id} was refused: {reply!r}")


def _forked(checker: Checker, act: Act, reply: Any) -> None:
    if reply is not None and not isinstance(reply, CannotFork | WorkflowAlreadyExists):
        raise Violation("I2", f"fork of {act.id} was refused: {reply!r}")
    if not isinstance(reply, CannotFork) and checker.ledger.life(act.run) is None:
        raise Violation("I1", f"the fork {act.run} of {act.id} was acknowledged and is not stored")


def _ended(checker: Checker, act: Act, reply: Any) -> None:
    life = checker.seen(reply)
    if not life.has_ended and not life.was_reopened:
        raise Violation("I5", f"{act.id} was reported as ended and goes on")


def _found(checker: Checker, act: Act, reply: Any) -> None:
    if reply is not None:
        checker.seen(reply)


def _described(checker: Checker, act: Act, reply: Any) -> None:
    life = checker.ledger.life(act.id)
    is_other = life is not None and not life.was_reopened and reply.summary.status is not life.record.status
    if life is None or (reply.summary.status.is_terminal and is_other):
        raise Violation("I5", f"{act.id} was described as {reply}")


def _read(checker: Checker, act: Act, reply: Any) -> None:
    life = checker.ledger.life(act.id)
    seqs = [entry.seq for entry in reply]
    last = seqs[-1] if seqs else 0
    gone = life.trimmed if life is not None else set()
    # What is trimmed in the same commit may have been shown.
    if seqs != sorted(set(seqs)) or not {*range(1, last + 1)} - {*seqs} <= gone:
        raise Violation("I4", f"the history of {act.id} was shown with a hole: {reply}")


def _replayed(checker: Checker, act: Act, reply: Any) -> None:
    pass


def _scheduled(checker: Checker, act: Act, reply: Any) -> None:
    stored = checker.ledger.schedule(act.id)
    if act.verb is Verb.TRIGGER_SCHEDULE:
        checker.seen(reply)
    elif act.verb is Verb.DELETE_SCHEDULE:
        if stored is not None:
            raise Violation("I23", f"{act.id} was deleted and is stored")
    elif stored is None or (act.verb is Verb.SCHEDULE and stored.job != job_of(act)):
        raise Violation("I23", f"{act.id} was acknowledged and is not stored as it should be: {stored}")
    elif act.verb is not Verb.SCHEDULE and stored.is_paused != (act.verb is Verb.PAUSE_SCHEDULE):
        raise Violation("I23", f"{act.verb.value} was acknowledged: {stored}")


_ANSWERS: dict[Verb, Callable[[Checker, Act, Any], None]] = {
    Verb.START: _started,
    Verb.SEND: _sent,
    Verb.CANCEL: _cancelled_again,
    Verb.TERMINATE: _cancelled,
    Verb.RETRY: _retried,
    Verb.FORK: _forked,
    Verb.AWAIT: _ended,
    Verb.FIND: _found,
    Verb.DESCRIBE: _described,
    Verb.HISTORY: _read,
    Verb.REPLAY: _replayed,
    Verb.SCHEDULE: _scheduled,
    Verb.PAUSE_SCHEDULE: _scheduled,
    Verb.RESUME_SCHEDULE: _scheduled,
    Verb.TRIGGER_SCHEDULE: _scheduled,
    Verb.DELETE_SCHEDULE: _scheduled,
}
