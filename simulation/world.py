"""The world of one simulation: an engine, its clients and what goes wrong, in one thread, in virtual time.

One pair of dice decides what happens first. When nothing is to be done at this instant, the clock jumps to the next.
"""

from __future__ import annotations

import contextlib
import logging
from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from durable.backends.memory import MemoryStore
from durable.errors import StorageUnavailable, StoreFenced
from durable.model.clock import SECOND
from durable.testing.faults import Fault as CommitFault
from durable.testing.faults import FaultyBackend, SimCrash
from simulation.activities import MENDED
from simulation.agenda import MILLISECOND, Agenda, VirtualClock
from simulation.change_rows import NEW_CODE
from simulation.checker import Checker
from simulation.clients import Client
from simulation.dice import Dice
from simulation.figures import Figures
from simulation.people import Person
from simulation.process import AnswerFaults, Process, WatchedBackend
from simulation.rest import check_calls, check_idle, check_memory, check_rest
from simulation.scenario import Act, Fault, Scenario, Trouble, Verb
from simulation.ticking import check_ticks
from simulation.violation import Violation

# A scenario that takes longer goes round in circles.
_STEPS = 20_000
# Commits in a row that fail before an engine gives up: its patience is half a minute.
_OUTAGE = 14
_COMMIT_FAULTS = {
    Trouble.CRASH_BEFORE_COMMIT: CommitFault.CRASH_BEFORE,
    Trouble.CRASH_AFTER_COMMIT: CommitFault.CRASH_AFTER,
    Trouble.FAIL_COMMIT: CommitFault.FAIL_BEFORE,
    Trouble.LIE_ABOUT_COMMIT: CommitFault.FAIL_AFTER,
}


class World:
    """Runs a scenario to its end, or raises a `Violation`."""

    def __init__(self, scenario: Scenario, *, is_traced: bool = True) -> None:
        self.scenario = scenario
        self.figures = Figures(seeds=1)
        self.steps = 0
        self._dice = Dice(scenario.seed)
        self._clock = VirtualClock()
        self._agenda = Agenda(self._clock, self._dice)
        self.checker = Checker(scenario, self._clock, is_traced=is_traced)
        self._config = scenario.engine_config()
        self._store = MemoryStore()
        self.checker.mark = self._store.mark
        self._backend = FaultyBackend(WatchedBackend(self._store, self.checker))
        self._faults = self._plan(scenario.faults)
        self._lives = 0
        # Until when the engine is at work on its last commit.
        self._free_at = 0
        # How many commits there were when it was last seen idle.
        self._idle_at = -1
        self._process: Process | None = None
        acts: dict[int, list[Act]] = defaultdict(list)
        for act in scenario.acts:
            acts[act.client].append(act)
        self._clients = [self._client(some) for some in acts.values()]

    def _client(self, acts: list[Act]) -> Client | Person:
        if acts[0].verb in (Verb.ANSWER, Verb.TAKE_BACK):
            return Person(acts[0], agenda=self._agenda, dice=self._dice, checker=self.checker)
        return Client(acts, agenda=self._agenda, dice=self._dice, checker=self.checker)

    def _plan(self, faults: tuple[Fault, ...]) -> dict[int, list[Fault]]:
        """Hand the faults of the store and of the answers to those who make them; the others, by their step."""
        at_step: dict[int, list[Fault]] = defaultdict(list)
        answers: dict[Trouble, set[int]] = {Trouble.DUPLICATE_ANSWER: set(), Trouble.LATE_ANSWER: set()}
        for fault in faults:
            if fault.trouble in _COMMIT_FAULTS:
                self._backend.plan[fault.at] = _COMMIT_FAULTS[fault.trouble]
            elif fault.trouble is Trouble.OUTAGE:
                self._backend.plan |= dict.fromkeys(range(fault.at, fault.at + _OUTAGE), CommitFault.FAIL_BEFORE)
            elif fault.trouble is Trouble.FAIL_CALL:
                self._backend.fail_calls.add(fault.at)
            elif fault.trouble is Trouble.CRASH_IN_BODY:
                self.checker.deadly_steps.add(fault.at)
            elif fault.trouble is Trouble.POISON:
                self.checker.poison[f"w{fault.at}"] = fault.by
            elif fault.trouble in answers:
                answers[fault.trouble].add(fault.at)
            else:
                at_step[fault.at].append(fault)
        self._answers = AnswerFaults(answers[Trouble.DUPLICATE_ANSWER], answers[Trouble.LATE_ANSWER])
        return at_step

    def run(self) -> None:
        """The whole scenario."""
        self._boot()
        while self._step():
            self.steps += 1
            if self.steps > _STEPS:
                raise Violation("I29", f"no rest after {_STEPS} steps")
        check_rest(self.checker.ledger, self._store)
        check_calls(self.checker.ledger, [client.unanswered() for client in self._clients])
        if self._process is not None:
            check_memory(self._process.coordinator.state, self._store)
        self._count()

    # --- one step ---------------------------------------------------------------------------------------------------

    def _step(self) -> bool:
        """One thing that happens; False when nothing is left to happen."""
        for fault in self._faults.get(self.steps, ()):
            self._strike(fault)
        process = self._process
        is_busy = process is not None and self._free_at <= self._clock.elapsed and process.coordinator.has_work()
        if self._agenda.is_due() and not (is_busy and self._dice.chance(0.5)):
            self._agenda.take()()
        elif process is not None and is_busy:
            self._work_off(process)
        else:
            return self._pass_time(process)
        return True

    def _work_off(self, process: Process) -> None:
        try:
            self.figures.operations += process.work_off()
        except SimCrash:
            self._die()
        except StoreFenced as error:
            raise Violation("I15", f"the only engine was fenced: {error}") from error
        except StorageUnavailable:
            # The engine gives up: crash-only, like a crash for everybody around.
            self._die()
        # While a commit is under way more comes in, so that batches grow.
        self._free_at = self._clock.elapsed + self._dice.below(self.scenario.commit_ms + 1) * MILLISECOND

    def _pass_time(self, process: Process | None) -> bool:
        """Nothing is to be done now: jump to when there is."""
        moment = self._agenda.next()
        wake: int | None = None
        if process is not None:
            wake = self._next_work(process)
            if wake is not None and (moment is None or wake < moment):
                moment = wake
        if moment is None:
            return False
        self._clock.elapsed = max(self._clock.elapsed, moment)
        if moment != wake:
            self._agenda.take()()
        elif process is not None:
            # Also if it is only a nap that is over, as in the engine's thread: a trial may be over.
            self._work_off(process)
        return True

    def _next_work(self, process: Process) -> int | None:
        """When the engine goes on by itself."""
        coordinator = process.coordinator
        if coordinator.has_work():
            return max(self._free_at, self._clock.elapsed)
        if process.is_ready and self._idle_at != self.checker.ledger.commits:
            self._idle_at = self.checker.ledger.commits
            check_idle(self.checker.ledger, process)
        check_ticks(self.checker.ledger, self._clock.now())
        has_timers = coordinator.state.timers.next() is not None or coordinator.state.trials.next() is not None
        # Else mail is kept for so long that nobody sees the end of it.
        is_swept = "event_retention" in self.scenario.config and self.checker.ledger.mail.has_to_sweep()
        if not has_timers and not is_swept:
            return None
        return self._clock.elapsed + max(1, round(coordinator.nap() * SECOND))

    # --- life and death ---------------------------------------------------------------------------------------------

    def _boot(self) -> None:
        self._lives += 1
        has_new_code = 0 < self.scenario.new_code <= self._lives
        NEW_CODE.set(has_new_code)
        MENDED.set(self.checker.ledger.mended)
        has_code = self._lives not in self.scenario.codeless
        self.checker.ledger.has_new_code, self.checker.ledger.has_code = has_new_code, has_code
        self._backend.inner = WatchedBackend(self._store, self.checker)
        try:
            self._process = Process(
                f"life {self._lives}", self._backend, self._config,
                clock=self._clock, agenda=self._agenda, dice=self._dice, checker=self.checker, faults=self._answers,
                has_code=has_code,
            )  # fmt: skip
        except (StorageUnavailable, SimCrash):
            self._agenda.add(self._dice.below(3_000) * MILLISECOND, self._boot)
            return
        for client in self._clients:
            client.meet(self._process)
        if not has_code:
            # Somebody notices, and deploys it.
            self._agenda.add(self._dice.between(500, 15_000) * MILLISECOND, partial(self._restart, self._process))

    def _restart(self, process: Process) -> None:
        """A clean stop, unless the process is gone already: it works off what is queued, says so, and leaves."""
        if process is self._process:
            check_memory(process.coordinator.state, self._store)
            process.stop()
            self.figures.faults += 1
            self.figures.crashes -= 1
            self._die()

    def _die(self) -> None:
        """Memory is gone; somebody starts the engine again."""
        if self._process is None:
            return
        self.figures.crashes += 1
        self.checker.trace.note(f"crash at step {self.steps}")
        self._process.is_alive = False
        self._process = None
        for client in self._clients:
            client.meet(None)
        self._agenda.add(self._dice.below(3_000) * MILLISECOND, self._boot)

    def _strike(self, fault: Fault) -> None:
        process = self._process
        if fault.trouble is Trouble.CLOCK:
            self._clock.offset += fault.by * MILLISECOND
            self.figures.faults += 1
        elif process is not None:
            if fault.trouble is Trouble.RESTART:
                self._restart(process)
                return
            check_memory(process.coordinator.state, self._store)
            self._die()

    def _count(self) -> None:
        figures = self.figures
        figures.commits = self.checker.ledger.commits
        figures.workflows = len(self.checker.ledger.lives)
        figures.activities, figures.answers = self.checker.activities, self.checker.answers
        figures.virtual_seconds = round(self._clock.monotonic())
        planned = [number for number in self._backend.plan if number <= self._backend.commits]
        figures.faults += self._answers.happened + len(planned)
        figures.faults += sum(call <= self._backend.calls for call in self._backend.fail_calls)
        figures.waiting = sum(not life.record.status.is_terminal for life in self.checker.ledger.lives.values())


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the engine's log: in a simulation everything goes wrong all the time."""
    log = logging.getLogger("durable")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def simulate(scenario: Scenario, *, is_traced: bool = True) -> World:
    """Run a scenario; the world as it is at its end. Raises a `Violation`, with the last lines of the trace if kept."""
    world = World(scenario, is_traced=is_traced)
    with quiet():
        try:
            world.run()
        except Exception as error:
            # An error of the engine itself is one more promise that it does not keep.
            violation = error if isinstance(error, Violation) else Violation("engine", repr(error))
            violation.add_note(f"seed {scenario.seed}, step {world.steps}")
            violation.add_note("\n".join(world.checker.trace.tail))
            raise violation from (None if violation is error else error)
    return world
