"""A `Service`: one process after another on one store, as its clients see it, in one thread.

It drives the real coordinator by hand. Three things survive a crash: the store, the world in which activities leave
traces, and the clients, which repeat a call with the same ids until it is answered. It knows no workflow and plans no
fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from durable.engine import operations as ops
from durable.engine.config import EngineConfig
from durable.engine.coordinator.coordinator import Release, WorkflowStateCoordinator
from durable.engine.coordinator.inbox import Envelope
from durable.engine.state.crashes import WINDOW
from durable.errors import StorageUnavailable
from durable.model.clock import SECOND
from durable.model.codec import Codec
from durable.model.error_codec import pack_error
from durable.model.position import place
from durable.model.records import EntryKind, EntryStatus, HistoryEntry
from durable.model.registry import Registry
from durable.runner.definitions import WorkflowDef
from durable.runner.ops import IN_ACTIVITY
from durable.runner.past import effective
from durable.testing.clock import ManualClock
from durable.testing.faults import FaultyBackend, SimCrash

_STEPS = 5_000
# One for all services: a codec learns how to store a function's arguments, which takes longer than many runs.
CODEC = Codec()


class Unthreaded(WorkflowStateCoordinator):
    """The coordinator, except that it never waits for its queue."""

    def step(self) -> bool:
        """Run one batch if there is work. Returns whether there was."""
        if self.work_off():
            return True
        if not any(self.state.trials.groups):
            # No suspect waits to be admitted.
            return False
        self._clock.sleep(WINDOW / SECOND)
        self.work_off()
        return True

    def give_up(self, error: BaseException) -> None:
        """What `run` does when the store is lost."""
        self._leave(error)


@attrs.define(eq=False)
class Call(Envelope):
    """A client's call, which counts its answers."""

    answers: int = 0

    def __attrs_post_init__(self) -> None:
        self.wake = self._count

    def _count(self) -> None:
        self.answers += 1


@attrs.define(eq=False)
class Service:
    """The store, the world and the current process."""

    backend: FaultyBackend
    workflows: Iterable[WorkflowDef[Any, Any]]
    config: EngineConfig = attrs.field(factory=EngineConfig)
    clock: ManualClock = attrs.field(factory=ManualClock)
    # What ran: the workflow's id, the position, the attempt.
    executed: list[tuple[str, str, int]] = attrs.field(factory=list)
    running: dict[tuple[int, int, str], ops.RunActivity] = attrs.field(factory=dict)
    # Activities with these names are held until the script lets them continue.
    held: set[str] = attrs.field(factory=set)
    calls: list[Call] = attrs.field(factory=list)
    starts: int = 0
    crashes: int = 0
    # Called after every step: an answered call, a recorded activity, or elapsed time.
    on_step: Callable[[], None] = lambda: None
    coordinator: Unthreaded = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.boot()
        self.settle()

    # --- the process ----------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Start a new process: open the store, as often as it takes."""
        self.running.clear()
        while True:
            self.starts += 1
            self.coordinator = Unthreaded(
                self.backend,
                Registry(self.workflows),
                codec=CODEC,
                config=self.config,
                clock=self.clock,
                release=self._receive,
            )
            try:
                self.coordinator.open(f"process {self.starts}")
            except (StorageUnavailable, SimCrash):
                self.backend.close()
                continue
            return

    def die(self) -> None:
        """Kill the process with everything in its memory, and start the next one."""
        self.backend.close()
        self.boot()

    def stop(self) -> None:
        """Stop the process cleanly, and start the next one."""
        self.coordinator.stop()
        self.coordinator.run()
        self.boot()

    def stop_undisturbed(self) -> None:
        """Stop and start without counting faults during the stop, because a fault there would be another script."""
        backend = self.backend
        counted = (backend.commits, backend.calls, backend.plan, backend.fail_calls)
        backend.plan, backend.fail_calls = {}, set()
        self.coordinator.stop()
        self.coordinator.run()
        backend.commits, backend.calls, backend.plan, backend.fail_calls = counted
        self.boot()

    def settle(self) -> None:
        """Let the engine do everything that it can do by itself. A dead process is replaced by the next."""
        for _ in range(_STEPS):
            try:
                if not self.coordinator.step():
                    return
            except SimCrash:
                self.crashes += 1
                self.die()
            except StorageUnavailable as error:
                self.coordinator.give_up(error)
                self.boot()
        raise AssertionError(f"no rest after {_STEPS} batches")

    def _receive(self, release: Release) -> None:
        for effect in release.activities:
            name = (effect.key, effect.round, effect.position)
            if isinstance(effect, ops.RunActivity):
                assert name not in self.running, f"{effect} runs already"
                self.running[name] = effect
            else:
                self.running.pop(name, None)
        for envelope in release.answered:
            envelope.wake()

    # --- clients --------------------------------------------------------------------------------------------------

    def ask(self, operation: ops.Operation[Any], is_done: Callable[[], bool] = lambda: False) -> Any:
        """Repeat a client's call until it is answered or seen to be done. Returns the reply; an error is a reply."""
        while True:
            crashes = self.crashes
            call = Call(operation, lambda: None)
            self.calls.append(call)
            self.coordinator.submit(call)
            self.settle()
            assert call.answers <= 1, f"{operation} was answered twice"
            assert call.answers == 1 or self.crashes > crashes, f"{operation} was never answered"
            if call.answers and not isinstance(call.error, StorageUnavailable):
                self.on_step()
                return call.reply if call.error is None else call.error
            if is_done():
                return None

    def wait(self, seconds: float) -> None:
        """Let time pass, and do what is due."""
        self.clock.advance(seconds)
        self.settle()
        self.on_step()

    # --- activities -----------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Run activities in turn until only held ones are left."""
        while (effect := self._next_activity()) is not None:
            del self.running[effect.key, effect.round, effect.position]
            self.report(effect)

    def _next_activity(self) -> ops.RunActivity | None:
        return next((effect for effect in self.running.values() if effect.definition.name not in self.held), None)

    def report(self, effect: ops.RunActivity) -> None:
        """Run one attempt and report it to the engine."""
        self.executed.append((effect.workflow_id, place(effect.round, effect.position), effect.attempt))
        token = IN_ACTIVITY.set(effect)
        value, failure = None, None
        try:
            value = effect.definition.fn(*effect.args, **effect.kwargs)
        except Exception as error:
            failure = error
        finally:
            IN_ACTIVITY.reset(token)
        self.answer(effect, value, failure)

    def answer(self, effect: ops.RunActivity, value: Any, error: Exception | None = None) -> None:
        """Report the outcome of an attempt to the engine."""
        self._check_unrecorded(effect)
        coder = effect.definition.coder(CODEC)
        outcome, value = coder.result.pack(value) if error is None else (pack_error(error), None)
        self.coordinator.submit(
            ops.RecordActivity(
                key=effect.key,
                round=effect.round,
                position=effect.position,
                attempt=effect.attempt,
                outcome=outcome,
                value=value,
                error=error,
            )
        )
        self.settle()
        self.on_step()

    def _check_unrecorded(self, effect: ops.RunActivity) -> None:
        """A recorded activity never runs again, and the attempts before this one are recorded."""
        record = self.backend.inner.workflow_by_key(effect.key)
        assert record is not None
        assert record.round == effect.round, f"{effect} belongs to a round that is over"
        history = effective(self.backend.inner.history(effect.key))
        statuses = [entry.status for entry in history if _is_of(entry, effect.position)]
        assert statuses == [EntryStatus.RETRY] * (effect.attempt - 1), f"{effect} is recorded already: {statuses}"


def _is_of(entry: HistoryEntry, position: str) -> bool:
    """Whether an entry belongs to the activity at this position."""
    return entry.position == position and entry.kind is EntryKind.ACTIVITY
