"""`WorkflowStateCoordinator`: the one thread that owns all state.

Take everything that is queued, decide, commit once, release once: in this order, for all operations alike. No feature
adds a line here. Nothing leaves before the commit, and what leaves goes into the host's loop in one call per batch.

A commit that fails is tried again, unreleased. Whether it happened after all is answered by the batch number before
anything else. A store that stays broken stops the engine: callers get `StorageUnavailable`, memory is thrown away, and
a restart recovers.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

import attrs

from durable.backends.base import Backend, Batch, Timers
from durable.clock import SECOND, Clock, from_duration
from durable.codec import Codec
from durable.engine.config import EngineConfig
from durable.engine.decisions import decide_in, follow_up
from durable.engine.operations import (
    Effect,
    Ended,
    Follow,
    Operation,
    RunActivity,
    StartWorkflow,
    StopActivity,
    SweepEvents,
    when_due,
)
from durable.engine.questions import Pending
from durable.engine.recovery import admit_suspect
from durable.engine.state import State
from durable.engine.turn import Turn
from durable.engine.watching import Observers, Watched, Watchers
from durable.errors import DurableError, EngineClosed, InvariantViolated, StorageError, StorageUnavailable
from durable.registry import Registry
from durable.runner.definitions import WorkflowDef

_log = logging.getLogger("durable")
# Longest sleep of the thread: how soon it notices that the wall clock was set forward.
_NAP = 5.0
# How many timers and operations of the engine itself go into one batch: each may have to rebuild a workflow, and who
# calls meanwhile waits until the batch is committed. A hundred thousand that are due at once must not be felt.
_OWN = 50
# A tuple: `isinstance` takes three times as long with a union.
_FOR_THE_LOOP = (RunActivity, StopActivity)


@attrs.define(eq=False)
class Envelope:
    """An operation on its way, and the answer on its way back to the caller, whom `wake` tells."""

    operation: Operation[Any]
    wake: Callable[[], None]
    reply: Any = None
    error: BaseException | None = None
    # A caller that no longer waits (a timeout) says so here, and is forgotten.
    is_abandoned: bool = False


@attrs.define(eq=False)
class Release:
    """What leaves the coordinator after one commit."""

    answered: list[Envelope] = attrs.field(factory=list)
    activities: list[RunActivity | StopActivity] = attrs.field(factory=list)
    # Why the coordinator has ended, in its last release.
    end: BaseException | None = None
    is_last: bool = False


class WorkflowStateCoordinator:
    """Owns the state; everything it does happens in the thread that calls `run`."""

    def __init__(
        self,
        backend: Backend,
        registry: Registry[WorkflowDef[Any, Any]],
        *,
        codec: Codec,
        config: EngineConfig,
        clock: Clock,
        release: Callable[[Release], None],
    ) -> None:
        self.state = State(backend, registry, codec, config)
        self._backend = backend
        self._config = config
        self._clock = clock
        self._release = release
        self._inbox: SimpleQueue[Envelope | Operation[Any] | None] = SimpleQueue()
        self._next: deque[Operation[Any]] = deque()
        # Those who wait for the batch that is being decided; if it cannot be committed they must be told.
        self._callers: list[Envelope] = []
        # Who waits for the end of a workflow, and who for any change.
        self._watchers: Watchers[Envelope] = Watchers()
        self._observers: Observers[Envelope] = Observers()
        self._patience = from_duration("commit_patience", config.commit_patience) / SECOND
        self._sweep_every = from_duration("sweep_every", config.sweep_every) / SECOND
        self._batch_number = 0
        self._sweep_at = 0.0
        self._stopping = False
        self._clean = False

    # --- from any thread ------------------------------------------------------------------------------------------

    def submit(self, item: Envelope | Operation[Any]) -> None:
        """Put an operation into the queue, in an envelope if somebody waits for the answer."""
        self._inbox.put(item)

    def refuse_rest(self, end: BaseException | None) -> list[Envelope]:
        """Everything that is queued, with why it is refused. Once more by whoever has seen the last release: calls may
        have come in since."""
        refused: list[Envelope] = []
        with contextlib.suppress(Empty):
            while True:
                if isinstance(item := self._inbox.get_nowait(), Envelope):
                    item.error = end or EngineClosed()
                    refused.append(item)
        return refused

    def stop(self) -> None:
        """End after what is queued now, and mark the stop as clean."""
        self._clean = True
        self._inbox.put(None)

    # --- the thread -----------------------------------------------------------------------------------------------

    def open(self, incarnation: str) -> None:
        """Take the store. Raises a `StorageError`."""
        opened = self._backend.open(incarnation)
        self.state.serial = opened.serial
        self.state.trials.unclean = not opened.clean
        self.state.trials.opened_at = self._clock.now()
        self.state.trials.opened_serial = opened.serial
        self._sweep_at = self._clock.monotonic()

    def run(self) -> None:
        """Work until told to stop, or until the store is lost."""
        end: BaseException | None = None
        try:
            while not self._stopping:
                self._work(wait=True)
            if self._clean:
                self.state.batch.clean_stop = True
                self._commit()
        except BaseException as error:
            end = error if isinstance(error, StorageError) else StorageUnavailable(f"the coordinator failed: {error!r}")
            _log.critical("the engine has stopped: %s", error, exc_info=not isinstance(error, StorageError))
        self._leave(end)

    def work_off(self) -> int:
        """One batch of what is queued and due now, without waiting for more; how many operations that was.

        For whoever has no thread to spare: `run` is the same with naps in between.
        """
        return self._work(wait=False)

    def has_work(self) -> bool:
        """Whether something is queued or due now."""
        timer = self.state.timers.next()
        is_due = timer <= self._clock.now() if timer is not None else self.state.timers.refill_after() is not None
        return is_due or bool(self._next) or not self._inbox.empty()

    def nap(self) -> float:
        """How many seconds may pass before there is something to do, unless something is put into the queue."""
        next_timer = self.state.timers.next()
        if next_timer is None:
            return _NAP
        return min(_NAP, max(0.0, (next_timer - self._clock.now()) / SECOND))

    def _work(self, *, wait: bool) -> int:
        taken = self._take(wait=wait)
        count = len(taken)
        self.process(taken)
        return count

    def process(self, items: list[Envelope | Operation[Any]]) -> None:
        """Decide a batch, commit it, release it. What comes in an envelope has somebody who waits for the answer."""
        self._callers = [item for item in items if isinstance(item, Envelope)]
        turn = Turn(self.state, self._clock.now())
        release = Release()
        if len(self._callers) > 1 and len(ids := _started(self._callers)) > 1:
            self.state.look_up(ids)
        lists: list[Envelope] = []
        # Used up: an answer of an activity is gone before the next one makes the garbage collector look at both.
        items.reverse()
        while items:
            item = items.pop()
            if not isinstance(item, Envelope):
                _decide_own(turn, item)
            elif item.operation.is_list:
                lists.append(item)
            else:
                self._decide(turn, item, release)
        if self.state.trials.unclean:
            admit_suspect(turn)
            follow_up(turn)
        told = self._observers.look(turn)
        self._commit()
        for one in lists:
            self._decide(turn, one, release)
        release.answered += self._observers.take(told)
        self._apply(turn.effects, release)
        if release.answered or release.activities:
            self._release(release)
        self._callers = []
        self.state.look_ahead()

    def _decide(self, turn: Turn, envelope: Envelope, release: Release) -> None:
        try:
            reply = decide_in(turn, envelope.operation)
        except (InvariantViolated, StorageError):
            # The state may be half changed. Crash-only: throw it away and start again.
            raise
        except DurableError as error:
            envelope.error, reply = error, None
        if isinstance(reply, Pending):
            self._watchers.add(reply.key, envelope)
        elif isinstance(reply, Watched):
            self._observers.add(reply.key, envelope)
        else:
            envelope.reply = reply
            release.answered.append(envelope)

    def _apply(self, effects: list[Effect], release: Release) -> None:
        """The commit has happened: sort what leaves from what is to be done next."""
        for effect in effects:
            if isinstance(effect, _FOR_THE_LOOP):
                release.activities.append(effect)
            elif isinstance(effect, Follow):
                self._next.append(effect.operation)
            elif isinstance(effect, Ended):
                for envelope in self._watchers.pop(effect.record.key):
                    envelope.reply = effect.record
                    release.answered.append(envelope)

    # --- taking work ----------------------------------------------------------------------------------------------

    def _take(self, *, wait: bool) -> list[Envelope | Operation[Any]]:
        """Everything that waits, up to the limit; timers and the engine's own operations come before new calls."""
        limit, own = self._config.max_batch, min(self._config.max_batch, _OWN)
        taken = self._due(own)
        while self._next and len(taken) < own:
            taken.append(self._next.popleft())
        inbox, may_wait = self._inbox, wait and not taken
        # Asked and not told by `Empty`, which takes as long as a decision. Nobody else takes anything out.
        while may_wait or not inbox.empty():
            try:
                item = inbox.get(timeout=self.nap()) if may_wait else inbox.get_nowait()
            except Empty:
                break
            may_wait, self._stopping = False, self._stopping or item is None
            if item is not None:
                taken.append(item)
            if self._stopping or len(taken) >= 2 * limit:
                break
        return taken

    def _due(self, limit: int) -> list[Envelope | Operation[Any]]:
        state = self.state
        if (after := state.timers.refill_after()) is not None:
            state.timers.refill(self._backend.find(Timers(after=after, limit=self._config.timer_window)))
        found: list[Envelope | Operation[Any]] = []
        found += [when_due(key) for key in state.timers.pop_due(self._clock.now(), limit)]
        if (now := self._clock.monotonic()) >= self._sweep_at:
            self._sweep_at = now + self._sweep_every
            found.append(SweepEvents())
            self._watchers.forget_abandoned()
            self._observers.forget_abandoned()
        return found

    # --- commit ---------------------------------------------------------------------------------------------------

    def _commit(self) -> None:
        """Make the batch durable, or raise. An empty batch costs nothing."""
        batch = self.state.batch
        if batch.is_empty():
            self.state.next_batch()
            return
        self.state.seal(self._batch_number + 1)
        try:
            self._backend.commit(batch)
        except StorageUnavailable as error:
            self._commit_again(batch, error)
        self._batch_number += 1
        self.state.next_batch()

    def _commit_again(self, batch: Batch, error: StorageUnavailable) -> None:
        """Try for a while what has failed once. A failed commit may have happened: the batch number tells."""
        # Told once: a full disk is not made better by a log that grows.
        _log.warning("a commit failed and is tried again for up to %.0f s: %s", self._patience, error)
        began = self._clock.monotonic()
        pause = 0.02
        while True:
            if self._clock.monotonic() + pause > began + self._patience:
                raise error
            self._clock.sleep(pause)
            pause = min(pause * 2, 5.0)
            try:
                if self._backend.last_batch() < batch.number:
                    self._backend.commit(batch)
                break
            except StorageUnavailable as again:
                error = again
        _log.warning("the store takes commits again, after %.1f s", self._clock.monotonic() - began)

    # --- the end --------------------------------------------------------------------------------------------------

    def _leave(self, end: BaseException | None) -> None:
        """Throw memory away and tell everybody who still waits."""
        for key in list(self.state.loaded):
            self.state.unload(key)
        try:
            self._backend.close()
        except StorageError as error:
            _log.error("the store could not be closed: %s", error)
        release = Release(self.refuse_rest(end), end=end, is_last=True)
        for one in [*self._callers, *self._watchers, *self._observers]:
            one.error = end or EngineClosed()
            release.answered.append(one)
        self._release(release)


def _decide_own(turn: Turn, operation: Operation[Any]) -> None:
    """Decide what nobody waits for."""
    try:
        decide_in(turn, operation)
    except (InvariantViolated, StorageError):
        raise
    except DurableError as error:
        _log.error("an operation of the engine itself was refused: %s: %s", operation, error)


def _started(callers: Sequence[Envelope]) -> list[str]:
    """The ids under which workflows are to be started."""
    calls = [caller.operation for caller in callers]
    return [call.id for call in calls if isinstance(call, StartWorkflow)]
