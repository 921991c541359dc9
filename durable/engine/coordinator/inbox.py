"""Everything that waits to be decided: calls, due timers and the engine's own operations, in one order.

Any thread may put something in; only the coordinator's thread takes something out. Knows instants and limits, but
nothing about what an operation does.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

import attrs

from durable.engine.config import EngineConfig
from durable.engine.operations import ExpireWorkflows, Operation, RecordActivity, SweepEvents, when_due
from durable.engine.operations.requests import Request
from durable.engine.state.state import State
from durable.errors import EngineClosed
from durable.model.clock import LATEST, SECOND, Clock, from_duration
from durable.model.timers import Timer

# How many timers and operations of the engine itself go into one batch. Each may have to rebuild a workflow, and calls
# that arrive meanwhile wait for the commit. Callers must not notice a hundred thousand timers that are due at once.
_OWN = 50
# Seconds between two looks for letters from other shards.
_POLL = 1.0


@attrs.define(eq=False)
class Envelope:
    """An operation on its way in, and its answer on the way back. `wake` notifies the caller, in the service's loop."""

    operation: Operation[Any]
    wake: Callable[[], None]
    # For a change that a caller of another process may repeat. None for callers in this process.
    request: Request | None = None
    reply: Any = None
    error: BaseException | None = None
    # Set by a caller that no longer waits, because of a timeout for example. It is dropped then.
    is_abandoned: bool = False
    # When it was submitted, if any timer was pending then.
    at: int = 0


# These carry the time at which they arrived. On the object itself: a pair for each would be one more object that the
# garbage collector visits at every step.
_STAMPED = (Envelope, RecordActivity)


class Inbox:
    """The queue of the coordinator, its own operations, and the timers of the state."""

    def __init__(
        self, state: State, clock: Clock, config: EngineConfig, on_sweep: Callable[[], None], longest_nap: float
    ) -> None:
        self._state = state
        self._timers = state.timers
        self._clock = clock
        self._config = config
        self._on_sweep = on_sweep
        self._longest_nap = longest_nap
        # None is the request to stop.
        self._queue: SimpleQueue[Envelope | Operation[Any] | None] = SimpleQueue()
        self._next: deque[Operation[Any]] = deque()
        self._sweep_every = from_duration("sweep_every", config.sweep_every) / SECOND
        self._sweep_at = 0.0
        # Whether the thread was asked to stop in order, and whether it has seen that.
        self.is_clean = False
        self.is_stopping = False

    def open(self) -> None:
        """Called when the engine begins to work: the first sweep is due."""
        self._sweep_at = self._clock.monotonic()

    # --- from any thread ------------------------------------------------------------------------------------------

    def submit(self, item: Envelope | Operation[Any]) -> None:
        """Put an operation into the queue, in an envelope if a caller waits for the answer."""
        # A call that arrived before a deadline is decided before it, however long the thread was busy. A call without a
        # stamp arrived when there was no deadline at all, so it comes before all present ones.
        if not self._timers.is_empty and isinstance(item, _STAMPED):
            item.at = self._clock.now()
        self._queue.put(item)

    def refuse_rest(self, end: BaseException | None) -> list[Envelope]:
        """Empty the queue; the calls get the error that ended the engine.

        Called again after the last release, because more may have arrived.
        """
        refused: list[Envelope] = []
        with contextlib.suppress(Empty):
            while True:
                if isinstance(item := self._queue.get_nowait(), Envelope):
                    item.error = end or EngineClosed()
                    refused.append(item)
        return refused

    def stop(self) -> None:
        """End after everything that is queued now, and mark the stop as clean."""
        self.is_clean = True
        self._queue.put(None)

    # --- in the coordinator's thread ------------------------------------------------------------------------------

    def follow(self, operation: Operation[Any]) -> None:
        """Add an operation that follows from a commit."""
        self._next.append(operation)

    def has_work(self) -> bool:
        """Whether something is queued or due now."""
        timer = self._state.timers.next()
        is_due = timer <= self._clock.now() if timer is not None else self._state.timers.refill_after() is not None
        return is_due or bool(self._next) or not self._queue.empty()

    def nap(self) -> float:
        """How many seconds may pass until there is something to do, if nothing is put into the queue."""
        until, trial = self._timers.next(), self._state.trials.next()
        if until is None or (trial is not None and trial < until):
            until = trial
        longest = self._longest_nap if self._state.shard.count == 1 else min(self._longest_nap, _POLL)
        return longest if until is None else min(longest, max(0.0, (until - self._clock.now()) / SECOND))

    def take(self, *, wait: bool) -> list[Envelope | Operation[Any]]:
        """Take everything that waits, up to the limit, in the order in which it is decided.

        Timers and the engine's own operations come before calls, except for calls that arrived before a deadline.
        """
        limit, own = self._config.max_batch, min(self._config.max_batch, _OWN)
        timers = self._due(own)
        # Own operations get at least half: timers may be due again and again for workflows that wait for one of these.
        taken = self._own(max(own - len(timers), (own + 1) // 2))
        calls: list[Envelope | Operation[Any]] = []
        most = 2 * limit - len(timers) - len(taken)
        queue, may_wait = self._queue, wait and not timers and not taken
        # `queue.empty()` rather than catching `Empty`, which costs as much as a decision. No other thread takes items.
        while may_wait or not queue.empty():
            try:
                item = queue.get(timeout=self.nap()) if may_wait else queue.get_nowait()
            except Empty:
                break
            may_wait, self.is_stopping = False, self.is_stopping or item is None
            if item is not None:
                calls.append(item)
            if self.is_stopping or len(calls) >= most:
                break
        return _in_order(timers, taken, calls) if timers or taken else calls

    def _due(self, limit: int) -> list[Timer]:
        """The timers whose time has come, up to the limit."""
        return self._state.take_due_timers(self._clock.now(), limit)

    def _own(self, limit: int) -> list[Envelope | Operation[Any]]:
        """The engine's own operations, up to the limit, plus the sweep if it is due."""
        operations: list[Envelope | Operation[Any]] = []
        if (now := self._clock.monotonic()) >= self._sweep_at:
            self._sweep_at = now + self._sweep_every
            operations.append(SweepEvents())
            if self._config.retention is not None:
                operations.append(ExpireWorkflows())
            self._on_sweep()
        while self._next and len(operations) < limit:
            operations.append(self._next.popleft())
        return operations


def _in_order(
    timers: list[Timer], own: list[Envelope | Operation[Any]], calls: list[Envelope | Operation[Any]]
) -> list[Envelope | Operation[Any]]:
    """The operations of one batch: each timer after the calls that arrived before its deadline, then the rest."""
    ordered: list[Envelope | Operation[Any]] = []
    early = 0
    for timer in timers:
        deadline = timer[0]
        while early < len(calls) and _arrived(calls[early]) < deadline:
            ordered.append(calls[early])
            early += 1
        ordered.append(when_due(timer))
    return [*ordered, *own, *calls[early:]]


def _arrived(call: Envelope | Operation[Any]) -> int:
    """When a call or the result of an activity arrived. Own operations have no such time, and precede no timer."""
    return call.at if isinstance(call, _STAMPED) else LATEST
