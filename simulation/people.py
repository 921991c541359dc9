"""People: each has its eye on one question, answers it or takes it back some time after it is put, perhaps twice.

A person who was not answered because the engine died asks again, and is then told what has become of it. What a person
is told is checked at the moment of the telling, and so is the list of all questions.
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
    """One who answers."""

    def __init__(self, act: Act, *, agenda: Agenda, dice: Dice, checker: Checker) -> None:
        super().__init__()
        self._act = act
        self._agenda = agenda
        self._dice = dice
        self._checker = checker
        # The question, once it was seen, and whether it was answered before.
        self._asked: Asked | None = None
        self._is_again = False
        self._later(act.at)

    def _later(self, milliseconds: int) -> None:
        self._agenda.add(milliseconds * MILLISECOND, self._go)

    def _soon(self) -> int:
        return self._dice.below(2_000)

    def ask_again(self) -> None:
        """The engine has died before it has answered."""
        self._later(self._soon())

    def _engine_of(self, asked: Asked) -> Process | None:
        return self.engine(key_home(asked[0], self._checker.ledger.shards))

    def unanswered(self) -> Act | None:
        """The call whose answer is still to come."""
        return None if self._process is None else self._act

    # --- asking -----------------------------------------------------------------------------------------------------

    def _go(self) -> None:
        if self._asked is None:
            self._look()
        elif (process := self._engine_of(self._asked)) is None:
            self._later(self._soon())
        else:
            self._process = process
            self._note_intent(self._asked)
            process.ask(self._operation(self._asked), self._told)

    def _look(self) -> None:
        """Wait for the question to be put, then let some time pass."""
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
        self._process = None
        check_list(self._checker, asked, envelope.reply)
        self._asked = asked
        self._later(self._act.delay)

    def _note_intent(self, asked: Asked) -> None:
        wanted = self._checker.ledger.wanted.setdefault(asked, set())
        wanted.add(answer_of(self._act.number, self._act.client) if self._act.verb is Verb.ANSWER else "")

    def _operation(self, asked: Asked) -> Operation[Any]:
        life = self._checker.ledger.lives[asked[0]]
        id, pause_id = life.record.id, place(asked[1], asked[2])
        if self._act.verb is Verb.ANSWER:
            return ResumePause(id, pause_id, answer_of(self._act.number, self._act.client))
        return CancelPause(id, pause_id, reason_of(self._act.number))

    # --- being told -------------------------------------------------------------------------------------------------

    def _told(self, envelope: Envelope) -> None:
        asked, self._process = self._asked, None
        assert asked is not None
        refusal = envelope.error or envelope.reply
        self._checker.trace.note(f"{self._act.verb.value} {self._act.number} {type(refusal).__name__}")
        if refusal is None:
            self._check_done(asked)
        elif not self._is_right(asked, refusal):
            raise Violation("I2", f"{self._act.verb.value} of {asked} was refused: {refusal!r}")
        elif isinstance(refusal, WorkflowParked) and not self._checker.ledger.has_code:
            # It goes on when the code is back.
            self._later(self._soon())
            return
        if self._act.is_repeated and not self._is_again:
            self._is_again = refusal is None
            if self._is_again:
                self._later(self._soon())

    def _check_done(self, asked: Asked) -> None:
        if self._is_again:
            raise Violation("I8", f"{asked} was answered before, and once more")
        recorded = self._checker.ledger.recorded.get(asked)
        mine = answer_of(self._act.number, self._act.client) if self._act.verb is Verb.ANSWER else ""
        # What it learnt just before it went on as another round is not kept.
        if recorded != mine and not (recorded is None and self._is_over(asked)):
            raise Violation("I1", f"{asked} was acknowledged with {mine}, recorded is {recorded}")

    def _is_over(self, asked: Asked) -> bool:
        """Whether nothing is known of a question any more: it was put in a round that is over, or was trimmed."""
        key, round, position = asked
        life = self._checker.ledger.lives[key]
        return life.record.round > round or any(
            entry.seq in life.trimmed for entry in life.entries if entry.position == position
        )

    def _is_right(self, asked: Asked, refusal: BaseException | DurableError) -> bool:
        """Whether a refusal is one that a person can meet, and true."""
        key, _, position = asked
        life = self._checker.ledger.lives[key]
        if isinstance(refusal, WorkflowTerminated):
            return (life.has_ended or life.was_reopened) and (
                asked not in self._checker.ledger.recorded or self._is_over(asked)
            )
        if isinstance(refusal, WorkflowParked):
            # Or it was, until an operator retried it in the same commit; or its code is missing, which an answer only
            # finds out: it does not park it.
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
    """I18: what people see is what is open, in order; of the shard in which they look."""
    shards = checker.ledger.shards
    waiting = checker.ledger.waiting.get(("", ""), {})
    here = (wait for (key, _), wait in waiting.items() if key_home(key, shards) == key_home(asked[0], shards))
    open_now = sorted(wait.serial for wait in here)
    if (shown := [one.number for one in listed]) != open_now:
        raise Violation("I18", f"questions {shown} are listed, open are {open_now}")
