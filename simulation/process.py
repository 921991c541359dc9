"""One life of an engine: the coordinator, its running activities, its waiting calls. A crash throws all of it away.

Everything happens in the thread of the simulation. The coordinator processes a batch when the world calls `work_off`.
An activity is an item of the agenda that calls the plain function at its time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from durable.backends.base import Backend, Batch, Opened
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.engine.config import EngineConfig
from durable.engine.coordinator.coordinator import Release, WorkflowStateCoordinator
from durable.engine.coordinator.inbox import Envelope
from durable.engine.operations import BeginAttempt, Operation, RecordActivity, RunActivity
from durable.engine.operations.requests import Request
from durable.engine.remote import wire
from durable.model.codec import Codec
from durable.model.error_codec import pack_error
from durable.model.registry import Registry
from durable.runner.ops import IN_ACTIVITY
from simulation.agenda import MILLISECOND, Agenda, VirtualClock
from simulation.checker import Checker, Name
from simulation.dice import Dice
from simulation.rows import simulated
from simulation.violation import Violation

# One codec for all processes: making one costs more than running a scenario.
CODEC = Codec()
# How many milliseconds an activity takes.
_TAKES = {0: 3, 20: 4, 300: 3, 2_000: 2, 9_000: 1}


class WatchedBackend(MemoryBackend):
    """A store in memory that shows every commit to the checker, before the caller gets its result."""

    def __init__(self, store: MemoryStore, checker: Checker) -> None:
        super().__init__(store)
        self._checker = checker

    def open(self, incarnation: str) -> Opened:
        opened = super().open(incarnation)
        self._checker.opened(clean=opened.clean)
        return opened

    def commit(self, batch: Batch) -> None:
        super().commit(batch)
        self._checker.committed(batch, self._store.letterbox.mark)


def _error_text(error: Exception) -> str:
    """The stored form of an error. Cached, because formatting a traceback costs more than a step."""
    name = f"{type(error).__name__}{error.args}"
    if name not in _ERRORS:
        _ERRORS[name] = pack_error(error.with_traceback(None))
    return _ERRORS[name]


_ERRORS: dict[str, str] = {}


class AnswerFaults:
    """Which results of activities arrive twice, and which arrive after a stop; counted over all lives of a shard."""

    def __init__(self, duplicates: set[int], late: set[int]) -> None:
        self._duplicates = duplicates
        self._late = late
        self._answers = 0
        self._stops = 0
        self.happened = 0

    def is_duplicate(self) -> bool:
        """Whether the result that was just delivered is delivered again."""
        self._answers += 1
        self.happened += self._answers in self._duplicates
        return self._answers in self._duplicates

    def is_late(self) -> bool:
        """Whether the activity that was just stopped still delivers a result."""
        self._stops += 1
        self.happened += self._stops in self._late
        return self._stops in self._late


class Process:
    """One incarnation of an engine. Making one raises a `StorageError` if it cannot open the store."""

    def __init__(
        self,
        name: str,
        backend: Backend,
        config: EngineConfig,
        *,
        clock: VirtualClock,
        agenda: Agenda,
        dice: Dice,
        checker: Checker,
        faults: AnswerFaults,
        has_code: bool = True,
    ) -> None:
        self._agenda = agenda
        self._dice = dice
        self._checker = checker
        self._faults = faults
        self._config = config
        self.is_alive = True
        # Whether it has the code of the stored workflows.
        self.has_code = has_code
        self.running: dict[Name, RunActivity] = {}
        self.coordinator = WorkflowStateCoordinator(
            backend,
            Registry([simulated] if has_code else []),
            codec=CODEC,
            config=config,
            clock=clock,
            release=self._receive,
        )
        self.coordinator.state.watch = checker
        self.coordinator.open(name)

    @property
    def is_ready(self) -> bool:
        """Whether the recovery is over. Callers may call only then."""
        return not self.coordinator.is_recovering

    # --- work -------------------------------------------------------------------------------------------------------

    def work_off(self) -> int:
        """Process one batch; returns the number of operations. Checks the limits of batches and memory (I28)."""
        count = self.coordinator.work_off()
        # Letters come on top of the operations of callers and timers.
        most = 2 + (self.coordinator.state.shard.count > 1)
        if count > most * self._config.max_batch + 1:
            raise Violation("I28", f"{count} operations in one batch")
        if len(self.coordinator.state.loaded) > self._config.max_loaded_workflows:
            raise Violation("I28", f"{len(self.coordinator.state.loaded)} bodies in memory")
        return count

    def ask(
        self, operation: Operation[Any], answered: Callable[[Envelope], None], request_id: str | None = None
    ) -> None:
        """Make a call. `answered` gets the envelope after the commit, or is never called if the process crashes."""
        write = functools.partial(wire.write_answer, type(operation))
        request = None if request_id is None else Request(request_id, write)
        envelope = Envelope(operation, lambda: answered(envelope), request)
        self.coordinator.submit(envelope)

    def stop(self) -> None:
        """An orderly stop: process everything queued, commit that the stop is clean, and close."""
        self.coordinator.stop()
        self._checker.is_stopping = True
        self.coordinator.run()
        self._checker.is_stopping = False
        if self._checker.broken is not None:
            # The coordinator handles any error as its own end, so this one is raised here again.
            raise self._checker.broken

    def _receive(self, release: Release) -> None:
        """Take the release of a commit."""
        # The last release is ignored: its callers ask the next engine, as after a crash.
        if self.is_alive and not release.is_last:
            try:
                self._leave(release)
            except Violation as violation:
                self._checker.broken = violation
                raise

    def _leave(self, release: Release) -> None:
        """Start and stop activities and answer calls, as the loop of a service would."""
        if not self.coordinator.state.batch.is_empty():
            raise Violation("I6", "a release leaves while decisions are not committed")
        begun: dict[Name, RunActivity] = {}
        for effect in release.activities:
            name = (effect.key, effect.round, effect.position)
            if isinstance(effect, RunActivity):
                begun[name] = effect
            elif begun.pop(name, None) is None:
                self._stop(name)
        for name, effect in begun.items():
            self._begin(name, effect)
        for envelope in release.answered:
            envelope.wake()

    # --- activities -------------------------------------------------------------------------------------------------

    def _takes(self) -> int:
        """How many microseconds an activity runs, drawn."""
        return self._dice.weighted(_TAKES) * MILLISECOND

    def _begin(self, name: Name, effect: RunActivity) -> None:
        """Start an attempt; it ends when the agenda says so."""
        self._checker.began(effect)
        self.running[name] = effect
        if effect.on_trial:
            self.coordinator.submit(BeginAttempt(effect.key))
        self._agenda.add(self._takes(), functools.partial(self._end, name, effect))

    def _stop(self, name: Name) -> None:
        """Stop an attempt, which may deliver a result nevertheless."""
        stopped = self.running.pop(name, None)
        if stopped is not None:
            self._checker.stopped(name)
            if self._faults.is_late():
                self._agenda.add(self._takes(), functools.partial(self._answer, stopped, counts=False))

    def _end(self, name: Name, effect: RunActivity) -> None:
        """An attempt has ended: deliver its result, perhaps twice."""
        # By identity: this attempt may have been stopped, and another may run under the same name.
        if self.is_alive and self.running.get(name) is effect:
            del self.running[name]
            self._answer(effect)
            if self._faults.is_duplicate():
                self._agenda.add(self._takes(), functools.partial(self._answer, effect, counts=False))

    def _answer(self, effect: RunActivity, *, counts: bool = True) -> None:
        """Run the plain function and submit its result. `counts` is False for results that must be ignored."""
        if not self.is_alive:
            return
        answer = RecordActivity(
            key=effect.key,
            round=effect.round,
            position=effect.position,
            attempt=effect.attempt,
            outcome="",
            mends=effect.mends,
        )
        token = IN_ACTIVITY.set(effect)
        try:
            value = effect.definition.fn(*effect.args, **effect.kwargs)
            answer.outcome, answer.value = effect.definition.coder(CODEC).result.pack(value)
        except Exception as error:
            answer.outcome, answer.error = _error_text(error), error.with_traceback(None)
        finally:
            IN_ACTIVITY.reset(token)
        if counts:
            self._checker.answered(effect, answer.outcome)
        self.coordinator.submit(answer)
