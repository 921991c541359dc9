"""One shard of the store: its rows, its faults, and the process that owns it at the moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from durable.backends.base import Batch, LetterId, StoredLetter
from durable.backends.memory import MemoryStore
from durable.testing.faults import Fault as CommitFault
from durable.testing.faults import FaultyBackend
from simulation.activities import MENDED
from simulation.change_rows import NEW_CODE
from simulation.checker import Checker
from simulation.process import AnswerFaults, Process, WatchedBackend
from simulation.troubles import Fault, Trouble

# So many commits in a row fail that an engine gives up: its patience is half a minute.
_OUTAGE = 14
_COMMIT_FAULTS = {
    Trouble.CRASH_BEFORE_COMMIT: CommitFault.CRASH_BEFORE,
    Trouble.CRASH_AFTER_COMMIT: CommitFault.CRASH_AFTER,
    Trouble.FAIL_COMMIT: CommitFault.FAIL_BEFORE,
    Trouble.LIE_ABOUT_COMMIT: CommitFault.FAIL_AFTER,
}


class Contested(FaultyBackend):
    """A store that another process may have taken just before a commit, which is then refused."""

    def __init__(self, store: MemoryStore, checker: Checker) -> None:
        super().__init__(WatchedBackend(store, checker))
        self._store = store
        # Before which commits that happens, by count.
        self.takeovers: set[int] = set()

    def commit(self, batch: Batch) -> None:
        if self.commits + 1 in self.takeovers:
            # The other process dies before it does anything: for the next engine that is an unclean stop.
            self._store.incarnation, self._store.batch = "somebody else", 0
        super().commit(batch)


@attrs.define(eq=False)
class Node:
    """A shard of the store. The world starts and ends its processes."""

    number: int
    store: MemoryStore
    checker: Checker
    backend: Contested = attrs.field(init=False)
    answers: AnswerFaults = attrs.field(init=False)
    _inbox: Mapping[LetterId, StoredLetter] = attrs.field(init=False)
    # How often a process was started for it; the present process; whether that has any code, and whether the new code.
    lives: int = 0
    process: Process | None = None
    has_code: bool = True
    has_new_code: bool = False
    # Until when the engine is busy with its last commit, and until when it is stalled.
    free_at: int = 0
    stalled_until: int = 0
    # How many commits there were at its last check while idle.
    idle_at: int = -1
    # For how long the shard has no owner when its process dies next, in milliseconds.
    orphaned: int = 0

    def __attrs_post_init__(self) -> None:
        self.backend = Contested(self.store, self.checker)
        self._inbox = self.store.letterbox.inbox(self.number)

    def plan(self, faults: Iterable[Fault]) -> list[Fault]:
        """Set up the faults of commits, calls, bodies and answers. Returns the others, which the world makes."""
        for_world: list[Fault] = []
        answers: dict[Trouble, set[int]] = {Trouble.DUPLICATE_ANSWER: set(), Trouble.LATE_ANSWER: set()}
        for fault in faults:
            if fault.trouble in _COMMIT_FAULTS:
                self.backend.plan[fault.at] = _COMMIT_FAULTS[fault.trouble]
            elif fault.trouble is Trouble.OUTAGE:
                self.backend.plan |= dict.fromkeys(range(fault.at, fault.at + _OUTAGE), CommitFault.FAIL_BEFORE)
            elif fault.trouble is Trouble.FAIL_CALL:
                self.backend.fail_calls.add(fault.at)
            elif fault.trouble is Trouble.TAKEOVER:
                self.backend.takeovers.add(fault.at)
            elif fault.trouble is Trouble.CRASH_IN_BODY:
                self.checker.deadly_steps.add(fault.at)
            elif fault.trouble is Trouble.POISON:
                self.checker.poison[f"w{fault.at}"] = fault.by
            elif fault.trouble in answers:
                answers[fault.trouble].add(fault.at)
            else:
                for_world.append(fault)
        self.answers = AnswerFaults(answers[Trouble.DUPLICATE_ANSWER], answers[Trouble.LATE_ANSWER])
        return for_world

    def enter(self) -> None:
        """Make this the present shard: the next step happens here, with its code."""
        ledger = self.checker.ledger
        NEW_CODE.set(self.has_new_code)
        MENDED.set(ledger.mended)
        ledger.shard, ledger.has_code, ledger.has_new_code = self.number, self.has_code, self.has_new_code

    def has_work(self, process: Process) -> bool:
        """Whether its process has something to do now: queued calls, due timers or letters."""
        return process.coordinator.has_work() or bool(self._inbox)

    def happened(self) -> int:
        """How many of the planned faults of its store and its answers have happened."""
        planned = [number for number in self.backend.plan if number <= self.backend.commits]
        failed = sum(call <= self.backend.calls for call in self.backend.fail_calls)
        taken = sum(number <= self.backend.commits for number in self.backend.takeovers)
        return self.answers.happened + len(planned) + failed + taken
