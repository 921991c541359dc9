"""The world of one simulation: an engine for each shard, clients and faults, in one thread, in virtual time.

Dice decide the order of things at one instant. When nothing is due, the clock jumps to the next instant.
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
from durable.testing.faults import SimCrash
from simulation.agenda import MILLISECOND, Agenda, VirtualClock
from simulation.checker import Checker
from simulation.clients import Client
from simulation.dice import Dice
from simulation.figures import Figures
from simulation.letter_rules import check_letters
from simulation.node import Node
from simulation.people import Person
from simulation.process import Process, WatchedBackend
from simulation.rest import check_calls, check_idle, check_memory, check_rest
from simulation.scenario import Act, Scenario, Verb
from simulation.ticking import check_ticks
from simulation.troubles import Fault, Trouble
from simulation.violation import Violation

# A scenario that takes more steps never ends.
_STEPS = 20_000


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
        stores = MemoryStore.sharded(scenario.shards) if scenario.shards > 1 else (MemoryStore(),)
        self.checker.marks = [store.mark for store in stores]
        self._stores = stores
        self._nodes = [Node(number, store, self.checker) for number, store in enumerate(stores)]
        self._faults: dict[int, list[Fault]] = defaultdict(list)
        for node in self._nodes:
            for fault in node.plan(fault for fault in scenario.faults if fault.shard % scenario.shards == node.number):
                self._faults[fault.at].append(fault)
        acts: dict[int, list[Act]] = defaultdict(list)
        for act in scenario.acts:
            acts[act.client].append(act)
        self._clients = [self._client(own) for own in acts.values()]

    def _client(self, acts: list[Act]) -> Client | Person:
        if acts[0].verb in (Verb.ANSWER, Verb.TAKE_BACK):
            return Person(acts[0], agenda=self._agenda, dice=self._dice, checker=self.checker)
        return Client(acts, agenda=self._agenda, dice=self._dice, checker=self.checker)

    def run(self) -> None:
        """Run the whole scenario, then check what must hold at the end."""
        for node in self._nodes:
            self._boot(node)
        while self._step():
            self.steps += 1
            if self.steps > _STEPS:
                raise Violation("I29", f"the scenario has not ended after {_STEPS} steps")
        check_rest(self.checker.ledger, self._stores)
        check_calls(self.checker.ledger, [client.unanswered() for client in self._clients])
        if len(self._nodes) > 1:
            check_letters(self.checker.ledger, self._stores)
        for node in self._nodes:
            if node.process is not None:
                check_memory(node.process.coordinator.state, node.store)
        self._count()

    # --- one step ---------------------------------------------------------------------------------------------------

    def _step(self) -> bool:
        """Let one thing happen. Returns False when nothing is left to happen."""
        for fault in self._faults.get(self.steps, ()):
            self._strike(fault)
        busy = [node for node in self._nodes if self._is_busy(node)]
        if self._agenda.is_due() and not (busy and self._dice.chance(0.5)):
            self._agenda.take()()
        elif busy:
            self._work_off(busy[0] if len(busy) == 1 else busy[self._dice.below(len(busy))])
        else:
            return self._pass_time()
        return True

    def _is_busy(self, node: Node) -> bool:
        """Whether an engine has work, and is not in a commit or stalled."""
        process, elapsed = node.process, self._clock.elapsed
        is_free = node.free_at <= elapsed and node.stalled_until <= elapsed
        return is_free and process is not None and node.has_work(process)

    def _work_off(self, node: Node) -> None:
        """Let an engine process one batch; it may crash, be fenced or give up."""
        assert node.process is not None, "only a process has work"
        node.enter()
        try:
            self.figures.operations += node.process.work_off()
        except SimCrash:
            self._die(node)
        except StoreFenced as error:
            if not node.backend.takeovers:
                raise Violation("I15", f"the only engine was fenced: {error}") from error
            self._die(node)
        except StorageUnavailable:
            # The engine gives up. For its callers that is a crash.
            self._die(node)
        # More calls arrive while a commit is under way, so that batches grow.
        node.free_at = self._clock.elapsed + self._dice.below(self.scenario.commit_ms + 1) * MILLISECOND

    def _pass_time(self) -> bool:
        """Nothing is due: jump to the next instant. Returns False if there is none."""
        moment = self._agenda.next()
        waking: list[Node] = []
        for node in self._nodes:
            wake = None if node.process is None else self._next_work(node, node.process)
            if wake is not None and (moment is None or wake < moment):
                moment, waking = wake, [node]
            elif wake is not None and wake == moment and waking:
                waking.append(node)
        if moment is None:
            return False
        self._clock.elapsed = max(self._clock.elapsed, moment)
        if not waking:
            self._agenda.take()()
        for node in waking:
            # Even if only a nap is over, as in the engine's thread: a trial may be over.
            if node.process is not None:
                self._work_off(node)
        return True

    def _next_work(self, node: Node, process: Process) -> int | None:
        """When an engine works next without a call, or None. Checks the invariants of idle engines."""
        coordinator, ledger = process.coordinator, self.checker.ledger
        free_at = max(node.free_at, node.stalled_until)
        # An engine that is free has nothing to do: `_step` has just asked.
        if free_at > self._clock.elapsed and node.has_work(process):
            return free_at
        if process.is_ready and node.idle_at != ledger.commits:
            node.idle_at = ledger.commits
            node.enter()
            check_idle(ledger, process)
        check_ticks(ledger, self._clock.now())
        has_timers = coordinator.state.timers.next() is not None or coordinator.state.trials.next() is not None
        # Without a short retention, mail is kept for longer than the world lasts.
        is_swept = "event_retention" in self.scenario.config and ledger.mail.has_to_sweep()
        if not has_timers and not is_swept:
            return None
        return max(node.stalled_until, self._clock.elapsed + max(1, round(coordinator.nap() * SECOND)))

    # --- life and death ---------------------------------------------------------------------------------------------

    def _boot(self, node: Node) -> None:
        """Start a process for a shard. If it cannot open the store, another try follows."""
        node.lives += 1
        node.has_new_code = 0 < self.scenario.new_code <= node.lives
        node.has_code = node.lives not in self.scenario.codeless
        node.enter()
        node.backend.inner = WatchedBackend(node.store, self.checker)
        try:
            node.process = Process(
                f"life {node.lives}", node.backend, self._config,
                clock=self._clock, agenda=self._agenda, dice=self._dice, checker=self.checker, faults=node.answers,
                has_code=node.has_code,
            )  # fmt: skip
        except (StorageUnavailable, StoreFenced, SimCrash):
            self._agenda.add(self._dice.below(3_000) * MILLISECOND, partial(self._boot, node))
            return
        for client in self._clients:
            client.meet(node.number, node.process)
        if not node.has_code:
            # An operator notices, and deploys the code.
            self._agenda.add(self._dice.between(500, 15_000) * MILLISECOND, partial(self._restart, node, node.process))

    def _restart(self, node: Node, process: Process) -> None:
        """Stop a process in order, so that the next one starts; nothing if it is gone already."""
        if process is node.process:
            node.enter()
            check_memory(process.coordinator.state, node.store)
            process.stop()
            self.figures.faults += 1
            self.figures.crashes -= 1
            self._die(node)

    def _die(self, node: Node) -> None:
        """A process dies: its memory is gone, its callers ask again, and a new process starts after a while."""
        if node.process is None:
            return
        self.figures.crashes += 1
        self.checker.trace.note(f"crash at step {self.steps}")
        node.process.is_alive = False
        node.process = None
        for client in self._clients:
            client.meet(node.number, None)
        self._agenda.add((self._dice.below(3_000) + node.orphaned) * MILLISECOND, partial(self._boot, node))
        node.orphaned = 0

    def _strike(self, fault: Fault) -> None:
        """Make a fault happen."""
        node = self._nodes[fault.shard % len(self._nodes)]
        process = node.process
        if fault.trouble is Trouble.CLOCK:
            self._clock.offset += fault.by * MILLISECOND
            self.figures.faults += 1
        elif fault.trouble is Trouble.STALL:
            node.stalled_until = self._clock.elapsed + fault.by * MILLISECOND
            self.figures.faults += 1
        elif process is not None:
            if fault.trouble is Trouble.RESTART:
                self._restart(node, process)
                return
            node.orphaned = fault.by
            check_memory(process.coordinator.state, node.store)
            self._die(node)

    def _count(self) -> None:
        """Fill in the figures at the end."""
        figures = self.figures
        figures.commits = self.checker.ledger.commits
        figures.workflows = len(self.checker.ledger.lives)
        figures.activities, figures.answers = self.checker.activities, self.checker.answers
        figures.virtual_seconds = round(self._clock.monotonic())
        figures.faults += sum(node.happened() for node in self._nodes)
        figures.clusters = int(len(self._nodes) > 1)
        figures.letters = self._stores[0].letterbox.count
        figures.waiting = sum(not life.record.status.is_terminal for life in self.checker.ledger.lives.values())


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the engine's log: in a simulation it would report faults all the time."""
    log = logging.getLogger("durable")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def simulate(scenario: Scenario, *, is_traced: bool = True) -> World:
    """Run a scenario and return the world at its end.

    Raises a `Violation`, with the seed, the step and the last lines of the trace as notes.
    """
    world = World(scenario, is_traced=is_traced)
    with quiet():
        try:
            world.run()
        except Exception as error:
            # An error of the engine itself breaks an invariant too.
            violation = error if isinstance(error, Violation) else Violation("engine", repr(error))
            violation.add_note(f"seed {scenario.seed}, step {world.steps}")
            violation.add_note("\n".join(world.checker.trace.tail))
            raise violation from (None if violation is error else error)
    return world
