"""Clients: each makes its calls one after the other, and repeats a call that the engine did not answer before it died.

`calls` has the operation for each call. Every answer is checked when it arrives: a refusal here (it must be one that
this call can meet, and true), anything else in `promises`.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from durable.engine.coordinator.inbox import Envelope
from durable.engine.decide.requests import KEPT_FOR
from durable.engine.operations import AwaitChange, ForkWorkflow, ListLetters, ReplayLetter, Sight
from durable.engine.operations.requests import Repeated
from durable.engine.remote import wire
from durable.errors import (
    DeadLetterNotFound,
    DurableError,
    NotAcrossShards,
    ScheduleBusy,
    ScheduleNotFound,
    WorkflowAlreadyExists,
    WorkflowNotFound,
    WorkflowTerminated,
)
from durable.model.ids import digest
from durable.model.records import WorkflowStatus
from durable.model.schedule import Overlap
from simulation.agenda import MILLISECOND, Agenda
from simulation.callers import Caller, home_of_act
from simulation.calls import arguments_of, operation_of
from simulation.checker import Checker
from simulation.dice import Dice
from simulation.kinds import is_by_request
from simulation.process import Process
from simulation.promises import PROMISES
from simulation.rows import simulated
from simulation.scenario import Act, Verb
from simulation.violation import Violation

# How often a client tries again for a workflow that was not started yet.
_TRIES = 40
_SENDING = (Verb.SEND, Verb.REPLAY)
_WITH_CODE = (Verb.START, Verb.SCHEDULE)
_REPAIRS = (Verb.RETRY, Verb.FORK)


class Client(Caller):
    """One client of the engine, with the acts of its number in the scenario."""

    def __init__(self, acts: list[Act], *, agenda: Agenda, dice: Dice, checker: Checker) -> None:
        super().__init__()
        self._acts = deque(acts)
        self._agenda = agenda
        self._dice = dice
        self._checker = checker
        self._tries = 0
        # The shard that decides the present call.
        self._home: int | None = None
        # When the present call was made first, and its first answer if it is made again after that.
        self._first_call: int | None = None
        self._first_reply: Any = None
        # The last sight that a watcher was shown.
        self._seen: Sight | None = None
        # Whether the start of the called workflow had been acknowledged before the call.
        self._was_started = False
        self._schedule(acts[0].at * MILLISECOND)

    def _schedule(self, delay: int) -> None:
        self._agenda.add(delay, self._call)

    def _soon(self) -> int:
        """A delay of up to two seconds."""
        return self._dice.below(2_000) * MILLISECOND

    # --- calling ----------------------------------------------------------------------------------------------------

    def ask_again(self) -> None:
        """Repeat the present call: the engine died before it answered."""
        self._schedule(self._soon())

    def _call(self) -> None:
        """Make the present call, or put it off: no engine, not the right moment yet, or its last moment has passed."""
        act = self._acts[0]
        if self._home is None:
            self._home = home_of_act(act, self._checker.ledger.shards)
        process = self.engine(self._home)
        if process is None:
            self._schedule(self._soon())
            return
        if act.verb in _WITH_CODE and not process.has_code:
            # A caller names the code that it has loaded, so only a process with the code makes this call.
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
        elif act.verb is Verb.SEND and is_by_request(act.event_id):
            # A call that was refused, and is made again later, is another request.
            process.ask(operation_of(act), self._answered, f"{act.event_id}#{self._tries}")
        else:
            process.ask(operation_of(act), self._answered)

    def _is_ripe(self, act: Act) -> bool:
        """Whether an operator retries or forks a workflow now.

        Most retries wait until the workflow has failed or is parked, forks until there is a history to copy; both only
        for so many tries.
        """
        life = self._checker.ledger.life(act.id)
        if act.verb is Verb.FORK:
            return (life is not None and bool(life.entries)) or self._tries >= _TRIES
        needs_help = life is not None and life.record.status in (WorkflowStatus.FAILED, WorkflowStatus.PARKED)
        return needs_help or act.is_early or self._tries >= _TRIES

    def _position(self, act: Act) -> str:
        """The position of a fork: that of a recorded step, if there is one."""
        life = self._checker.ledger.life(act.id)
        recorded = [] if life is None else [entry.position for entry in life.entries if entry.position]
        return recorded[act.number % len(recorded)] if recorded else "0"

    def _is_too_late(self, act: Act) -> bool:
        """Whether the engine may have forgotten the id of an event that was sent before. It is not sent again then."""
        now = self._agenda.now()
        if self._first_call is None:
            self._first_call = now
        kept_for = KEPT_FOR if is_by_request(act.event_id or "0") else self._checker.ledger.mail.retention
        return act.verb is Verb.SEND and now - self._first_call > kept_for // 2

    def _replay(self, process: Process, act: Act, envelope: Envelope) -> None:
        """Send the first dead letter again, if there is one."""
        if envelope.reply:
            process.ask(ReplayLetter(envelope.reply[0].id, act.id), self._answered)
        else:
            self._next()

    def _next(self) -> None:
        """The present act is done: schedule the next one."""
        act = self._acts.popleft()
        self._process = None
        self._tries = 0
        self._home = self._first_call = self._first_reply = None
        if self._acts:
            self._schedule(max(0, self._acts[0].at - act.at) * MILLISECOND)

    def unanswered(self) -> Act | None:
        """The call that is still waiting for its answer, if there is one."""
        if self._process is not None and self._seen is not None:
            # A watcher that still waits has seen the latest state.
            self._checker.watched(self._acts[0].id or "", self._seen)
        return None if self._process is None else self._acts[0]

    def _shown(self, envelope: Envelope) -> None:
        """A watcher is shown a change, and continues to watch until the workflow ends."""
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
        """An answer has arrived: check it, then make the next call."""
        act = self._acts[0]
        if isinstance(envelope.reply, Repeated):
            _read_again(envelope)
            # The first answer may be older than the start of the workflow.
            self._was_started = False
        self._checker.trace.note(f"{act.verb.value} {act.id} {act.event_id} {type(envelope.error).__name__}")
        if envelope.error is not None:
            self._refused(act, envelope.error)
            return
        if envelope.reply is None and self._was_started and act.verb not in _REPAIRS:
            raise Violation("I1", f"{act.id} was started, and {act.verb.value} does not find it")
        PROMISES[act.verb](self._checker, act, envelope.reply)
        if act.is_repeated and self._first_reply is None:
            # Send it again with the same id after it was acknowledged: the answer must be the same.
            self._first_reply = envelope.reply
            self._process = None
            self._schedule(self._soon())
            return
        if self._first_reply is not None and self._first_reply != envelope.reply:
            raise Violation("I16", f"{act.event_id} was answered {self._first_reply}, then {envelope.reply}")
        self._next()

    def _refused(self, act: Act, error: BaseException) -> None:
        """A refusal has arrived: try again if the workflow was not started yet, otherwise it must be right."""
        if isinstance(error, WorkflowNotFound) and self._was_started:
            raise Violation("I1", f"{act.id} was started, and {act.verb.value} does not find it")
        if isinstance(error, WorkflowNotFound) and self._tries < _TRIES:
            # It was not started yet: try again later.
            self._tries += 1
            self._first_call = None
            self._process = None
            self._schedule(self._soon())
            return
        if not self._is_right(act, error):
            raise Violation("I2", f"{act.verb.value} of {act.id} was refused: {error!r}")
        self._next()

    def _is_right(self, act: Act, error: BaseException) -> bool:
        """Whether this act can meet this refusal, and the refusal is true."""
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


def _read_again(envelope: Envelope) -> None:
    """Read the first answer to a request that was repeated."""
    try:
        envelope.reply = wire.read_answer(type(envelope.operation), wire.read_text(envelope.reply.text))
    except DurableError as error:
        envelope.reply, envelope.error = None, error
