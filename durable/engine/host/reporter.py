"""Hands facts to the observers, each in a thread of its own, so that none can delay or break the engine.

The engine puts facts into a bounded queue for each observer and goes on. The observer's thread takes them out and calls
it. An observer that raises misses that fact. One that is slow or blocks loses the facts that find its queue full; they
are counted and logged. The log is an observer like the others, so its lines keep their order, and a handler that blocks
does not stop the engine.

A thread starts with the first fact for its observer. A shutdown waits a moment for what is queued (`flush`).
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any

from durable.engine.operations import Operation, SendEvent, StartWorkflow, log_lines
from durable.engine.operations.facts import Fact, FactsDropped, Notice
from durable.engine.operations.observers import FACTS_MAX, Carrier, Observer
from durable.model.clock import Clock

_log = logging.getLogger("durable")
# How many seconds a thread waits before it takes the next facts.
_PAUSE = 0.005


class Lane:
    """The facts on their way to one observer. Any thread puts them in, one thread takes them out."""

    def __init__(self, name: str, observe: Callable[[Fact], object], kinds: Collection[type[Fact]] | None) -> None:
        self.name = name
        self._observe = observe
        # None: it wants every fact.
        self._kinds = kinds
        self._facts: deque[Fact] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        # Whether the thread waits for facts; whether one was taken out and the observer has not returned.
        self._is_waiting = self._is_busy = False
        # Set while somebody waits for the queue to become empty.
        self._hurry = threading.Event()
        self._must_end = False
        # Facts that were dropped and not reported.
        self._dropped = 0
        self._has_raised = False

    def put(self, facts: Sequence[Fact]) -> None:
        """Queue the facts that it wants. Those that find no room are dropped."""
        wanted = facts if self._kinds is None else [fact for fact in facts if type(fact) in self._kinds]
        if not wanted:
            return
        with self._changed:
            room = FACTS_MAX - len(self._facts)
            self._facts.extend(wanted[:room] if room < len(wanted) else wanted)
            self._dropped += max(0, len(wanted) - room)
            if self._is_waiting:
                self._changed.notify_all()
            if self._thread is None:
                self._start()

    @property
    def has_room(self) -> bool:
        """Whether it takes one more fact."""
        return len(self._facts) < FACTS_MAX

    def take_dropped(self) -> int:
        """How many facts were dropped since the last call."""
        if not self._dropped:
            return 0
        with self._changed:
            dropped, self._dropped = self._dropped, 0
            return dropped

    def flush(self, seconds: float) -> None:
        """Wait until every fact was observed, but not longer than this."""
        self._hurry.set()
        with self._changed:
            self._changed.wait_for(lambda: not (self._facts or self._is_busy) or self._thread is None, seconds)
        self._hurry.clear()

    def end(self) -> None:
        """Let the thread end after everything that is queued. A later fact starts another, which ends as soon."""
        with self._changed:
            self._must_end = True
            self._changed.notify_all()

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name=f"durable-observer-{self.name}", daemon=True)
        # The machine may have no thread left. The next fact tries again.
        with contextlib.suppress(RuntimeError):
            thread.start()
            self._thread = thread

    def _work(self) -> None:
        while (facts := self._take()) is not None:
            for fact in facts:
                try:
                    self._observe(fact)
                except BaseException as error:
                    self._complain(error)
            # Let some facts gather: to be woken for each would cost the other threads more than the fact itself.
            self._hurry.wait(_PAUSE)

    def _take(self) -> deque[Fact] | None:
        """Wait for the next facts, all that are queued; None to end."""
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()
            self._is_waiting = True
            self._changed.wait_for(lambda: self._facts or self._must_end)
            self._is_waiting = False
            if not self._facts:
                self._thread = None
                return None
            self._is_busy = True
            facts, self._facts = self._facts, deque()
            return facts

    def _complain(self, error: BaseException) -> None:
        """Log the first error of an observer: a line for each fact would be a flood."""
        if self._has_raised:
            return
        self._has_raised = True
        # The log may be the observer that raised.
        with contextlib.suppress(Exception):
            _log.error("observer %s raised; only its first error is logged", self.name, exc_info=error)


class Reporter:
    """All observers of an engine. Its methods may be called from any thread, and none raises."""

    def __init__(self, observers: Sequence[Observer], clock: Clock, *, log: bool) -> None:
        self._clock = clock
        self._lanes = [Lane(type(observer).__name__, observer.observe, None) for observer in observers]
        # Whether somebody wants the facts that only say that all is well.
        self.is_observed = bool(observers)
        self.carrier = next((observer for observer in observers if isinstance(observer, Carrier)), None)
        self._log = Lane("log", log_lines.write, log_lines.LINES.keys()) if log else None
        if self._log is not None:
            self._lanes.append(self._log)
        # The observers about which the log has a line.
        self._slow: set[Lane] = set()

    def tell(self, *facts: Fact) -> None:
        """Queue facts for the observers."""
        for lane in self._lanes:
            lane.put(facts)
        for lane in self._lanes:
            # Of lines that were lost, the log itself must tell, and it can only when there is room again.
            if (lane is not self._log or lane.has_room) and (dropped := lane.take_dropped()):
                self._tell_dropped(lane, dropped)

    def flush(self, seconds: float) -> None:
        """Wait until all observers have seen every fact, at most this long in all."""
        until = self._clock.monotonic() + seconds
        for lane in self._lanes:
            lane.flush(max(0.0, until - self._clock.monotonic()))

    def tell_last(self, level: int, text: str) -> None:
        """Write a line at once: nobody will wait for the thread that would write it."""
        if self._log is not None:
            log_lines.write(Notice(at_us=self._clock.now(), level=level, text=text))

    def close(self, seconds: float) -> None:
        """Flush, and let the threads end."""
        for lane in self._lanes:
            lane.end()
        self.flush(seconds)

    def _tell_dropped(self, slow: Lane, count: int) -> None:
        """Tell the other observers that one of them is too slow; the log only once, unless it is the slow one."""
        fact = FactsDropped(at_us=self._clock.now(), observer=slow.name, count=count)
        for lane in self._lanes:
            if (lane is self._log and (slow is lane or slow not in self._slow)) or lane not in (slow, self._log):
                lane.put([fact])
        self._slow.add(slow)


def capture(carrier: Carrier, operation: Operation[Any]) -> None:
    """Store the trace context of the caller in an operation that carries one, unless it has one from elsewhere."""
    if isinstance(operation, (StartWorkflow, SendEvent)) and operation.trace is None:
        action = "start" if isinstance(operation, StartWorkflow) else "send"
        # The call is worth more than its trace.
        with contextlib.suppress(Exception):
            operation.trace = carrier.capture(action, operation.name)
