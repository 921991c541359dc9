"""People: each waits for one question, and answers it or takes it back some time after it is asked, perhaps twice.

If the engine dies before it replies, the person makes the same call again, and the reply says what happened to the
first one. Every reply is checked when it arrives, and so is the list of open questions.
"""

from __future__ import annotations

from typing import Any

from durable.engine.coordinator.inbox import Envelope
from durable.engine.operations import CancelPause, ListPauses, Operation, ResumePause
from durable.errors import (
    DurableError,
    PauseAlreadyAnswered,
    PauseCancelled,
    PauseExpired,
    PauseNotFound,
    WorkflowParked,
    WorkflowTerminated,
)
from durable.model.homes import key_home
from durable.model.position import place
from simulation.agenda import MILLISECOND, Agenda
from simulation.asking import answer_of, reason_of
from simulation.callers import Caller
from simulation.checker import Checker
from simulation.dice import Dice
from simulation.ledger import Asked
from simulation.process import Process
from simulation.scenario import Act, Verb
from simulation.violation import Violation


class Person(Caller):
    """A person who answers one question."""

    def __init__(self, act: Act, *, agenda: Agenda, dice: Dice, checker: Checker) -> None:
        super().__init__()
        self._act = act
        self._agenda = agenda
        self._dice = dice
        self._checker = checker
        # The question, once the person has seen it; and whether their first answer was accepted.
        self._asked: Asked | None = None
        self._is_again = False
        self._later(act.at)

    def _later(self, milliseconds: int) -> None:
        self._agenda.add(milliseconds * MILLISECOND, self._go)

    def _soon(self) -> int:
        return self._dice.below(2_000)

    def ask_again(self) -> None:
        """Repeat the present call: the engine died before it replied."""
        self._later(self._soon())

    def _engine_of(self, asked: Asked) -> Process | None:
        return self.engine(key_home(asked[0], self._checker.ledger.shards))

    def unanswered(self) -> Act | None:
        """The call that is still waiting for its reply, if there is one."""
        return None if self._process is None else self._act

    # --- asking -----------------------------------------------------------------------------------------------------

    def _go(self) -> None:
        """Do what comes next: look for the question, or answer it."""
        if self._asked is None:
            self._look()
        elif (process := self._engine_of(self._asked)) is None:
            self._later(self._soon())
        else:
            self._process = process
            self._note_intent(self._asked)
            process.ask(self._operation(self._asked), self._replied)

    def _look(self) -> None:
        """Wait for the question to be asked, list all questions, then let some time pass."""
        ledger = self._checker.ledger
        asked = ledger.asked(self._act.number)
        if asked is None:
            calls = ledger.lookouts.setdefault(str(self._act.number), [])
            calls.append(lambda: self._later(self._dice.below(500)))
        elif (process := self._engine_of(asked)) is None:
            self._later(self._soon())
        else:
            self._process = process
            process.ask(ListPauses(after=0, limit=1_000), lambda envelope: self._listed(asked, envelope))

    def _listed(self, asked: Asked, envelope: Envelope) -> None:
        """Check the list, and answer after the planned delay."""
        self._process = None
        check_list(self._checker, asked, envelope.reply)
        self._asked = asked
        self._later(self._act.delay)

    def _note_intent(self, asked: Asked) -> None:
        """Note the answer before it is given: it may take effect although the engine dies before it replies."""
        wanted = self._checker.ledger.wanted.setdefault(asked, set())
        wanted.add(answer_of(self._act.number, self._act.client) if self._act.verb is Verb.ANSWER else "")

    def _operation(self, asked: Asked) -> Operation[Any]:
        """The call with which this person answers the question or takes it back."""
        life = self._checker.ledger.lives[asked[0]]
        id, pause_id = life.record.id, place(asked[1], asked[2])
        if self._act.verb is Verb.ANSWER:
            return ResumePause(id, pause_id, answer_of(self._act.number, self._act.client))
        return CancelPause(id, pause_id, reason_of(self._act.number))

    # --- replies ----------------------------------------------------------------------------------------------------

    def _replied(self, envelope: Envelope) -> None:
        """A reply has arrived: check it, and answer once more if the act says so."""
        asked, self._process = self._asked, None
        assert asked is not None
        refusal = envelope.error or envelope.reply
        self._checker.trace.note(f"{self._act.verb.value} {self._act.number} {type(refusal).__name__}")
        if refusal is None:
            self._check_done(asked)
        elif not self._is_right(asked, refusal):
            raise Violation("I2", f"{self._act.verb.value} of {asked} was refused: {refusal!r}")
        elif isinstance(refusal, WorkflowParked) and not self._checker.ledger.has_code:
            # Parked for missing code: try again until the code is back.
            self._later(self._soon())
            return
        if self._act.is_repeated and not self._is_again:
            self._is_again = refusal is None
            if self._is_again:
                self._later(self._soon())

    def _check_done(self, asked: Asked) -> None:
        """An accepted answer is recorded, and no other was accepted before it."""
        if self._is_again:
            raise Violation("I8", f"{asked} was answered before, and a second answer was accepted")
        recorded = self._checker.ledger.recorded.get(asked)
        mine = answer_of(self._act.number, self._act.client) if self._act.verb is Verb.ANSWER else ""
        # An answer that arrived just before the workflow began another round has left no entry.
        if recorded != mine and not (recorded is None and self._is_over(asked)):
            raise Violation("I1", f"{asked} was acknowledged with {mine}, recorded is {recorded}")

    def _is_over(self, asked: Asked) -> bool:
        """Whether the question has left no trace: it was asked in an earlier round, or its entry was trimmed."""
        key, round, position = asked
        life = self._checker.ledger.lives[key]
        return life.record.round > round or any(
            entry.seq in life.trimmed for entry in life.entries if entry.position == position
        )

    def _is_right(self, asked: Asked, refusal: BaseException | DurableError) -> bool:
        """Whether a person can meet this refusal, and it is true."""
        key, _, position = asked
        life = self._checker.ledger.lives[key]
        if isinstance(refusal, WorkflowTerminated):
            return (life.has_ended or life.was_reopened) and (
                asked not in self._checker.ledger.recorded or self._is_over(asked)
            )
        if isinstance(refusal, WorkflowParked):
            # It may have been parked until an operator retried it in the same commit. Or its code is missing: an answer
            # notices that, but does not park the workflow.
            ledger = self._checker.ledger
            return self._checker.is_parked(life.record.id) or life.record.id in ledger.mended or not ledger.has_code
        if isinstance(refusal, PauseNotFound):
            return self._is_over(asked) or (position not in life.waits and position not in life.done)
        if isinstance(refusal, PauseAlreadyAnswered):
            return bool(self._checker.ledger.recorded.get(asked)) or self._is_over(asked)
        if isinstance(refusal, PauseCancelled):
            return self._checker.ledger.recorded.get(asked) == "" or self._is_over(asked)
        return isinstance(refusal, PauseExpired) and (position in life.done or self._is_over(asked))


def check_list(checker: Checker, asked: Asked, listed: list[Any]) -> None:
    """I18: the list of questions is exactly the open ones of the shard that was asked, in order."""
    shards = checker.ledger.shards
    waiting = checker.ledger.waiting.get(("", ""), {})
    here = (wait for (key, _), wait in waiting.items() if key_home(key, shards) == key_home(asked[0], shards))
    open_now = sorted(wait.serial for wait in here)
    if (shown := [pause.number for pause in listed]) != open_now:
        raise Violation("I18", f"questions {shown} are listed, open are {open_now}")
