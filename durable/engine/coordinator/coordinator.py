"""`WorkflowStateCoordinator`: the one thread that owns all state.

First it recovers: the crash counts are committed when the store is opened, then the workflows that were running are
loaded, page by page. Timers and calls wait until that is over.

Then it decides the requests that clients have kept while no engine ran. In a store with several shards it handles its
letters instead: all that have arrived, before the timers and calls of a batch.

Then it takes everything that is queued, decides, commits once and releases once: in this order, for all operations
alike. No feature adds a line here. Nothing leaves before the commit, and everything that leaves goes into the host's
loop in one call per batch.

A commit that fails is tried again, unreleased; the batch number tells whether it happened after all. A store that stays
broken stops the engine: callers get `StorageUnavailable`, memory is thrown away, and a restart recovers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import attrs

from durable.backends.base import Backend
from durable.engine.config import EngineConfig
from durable.engine.coordinator.callers import Observers, Watchers
from durable.engine.coordinator.decisions import WAIT_KINDS, decide_in
from durable.engine.coordinator.inbox import Envelope, Inbox
from durable.engine.coordinator.upkeep import Patience, Upkeep
from durable.engine.decide.queries import Pending, Watched, answer_list
from durable.engine.decide.recovery import begin_trials, hold_trials, trials_begun
from durable.engine.decide.requests import keep_answer, repeated
from durable.engine.decide.turn import Turn
from durable.engine.operations import Effect, Follow, Operation, RecordActivity, RecoverNext, RunActivity, StopActivity
from durable.engine.operations.log_lines import Tell
from durable.engine.operations.own import ReadLetter
from durable.engine.operations.requests import DecideKept
from durable.engine.state.state import State
from durable.errors import DurableError, EngineClosed, InvariantViolated, StorageError, StorageUnavailable
from durable.model.clock import SECOND, Clock, from_duration
from durable.model.codec import Codec
from durable.model.registry import Registry
from durable.model.requests import KeptRequest
from durable.runner.definitions import WorkflowDef

_log = logging.getLogger("durable")
# A tuple: `isinstance` takes three times as long with a union.
_FOR_THE_LOOP = (RunActivity, StopActivity)
# How many letters are handled in one commit. Calls wait until all letters are handled.
_LETTERS = 100


@attrs.define(eq=False)
class Release:
    """Everything that leaves the coordinator after one commit. The bridge carries it into the loop."""

    answered: list[Envelope] = attrs.field(factory=list)
    activities: list[RunActivity | StopActivity] = attrs.field(factory=list)
    # In the last release: why the coordinator ended, or None after an orderly stop.
    end: BaseException | None = None
    is_last: bool = False


class WorkflowStateCoordinator:
    """Owns the state. Everything it does happens in the thread that calls `run`."""

    def __init__(
        self,
        backend: Backend,
        registry: Registry[WorkflowDef[Any, Any]],
        *,
        codec: Codec,
        config: EngineConfig,
        clock: Clock,
        release: Callable[[Release], None],
        receive: Callable[[KeptRequest], DecideKept] | None = None,
    ) -> None:
        self.state = State(backend, registry, codec, config)
        self._backend = backend
        self._config = config
        self._clock = clock
        self._release = release
        # Makes a kept request ready to be decided. None where no client keeps any.
        self._receive = receive
        # The callers of the batch that is being decided. If it cannot be committed, they get the error.
        self._callers: list[Envelope] = []
        # The callers that wait for the end of a workflow, and those that wait for any change.
        self._watchers: Watchers[Envelope] = Watchers()
        self._observers: Observers[Envelope] = Observers()
        self._patience = Patience(backend, clock, from_duration("commit_patience", config.commit_patience) / SECOND)
        self._upkeep = Upkeep(backend, clock)
        self._batch_number = 0
        # Whether the recovery is still under way. Until it is over no timer fires and no call is taken.
        self.is_recovering = True
        self._inbox = inbox = Inbox(self.state, clock, config, self._forget_abandoned, self._upkeep.longest_nap)
        # From any thread: queue an operation, end after everything queued, refuse what is queued after the end.
        self.submit, self.stop, self.refuse_rest = inbox.submit, inbox.stop, inbox.refuse_rest
        # How many seconds pass until there is something to do.
        self.nap = inbox.nap

    # --- the thread -----------------------------------------------------------------------------------------------

    def open(self, incarnation: str) -> None:
        """Take the store. Raises a `StorageError`."""
        opened = self._backend.open(incarnation)
        self._patience.limit()
        self.state.shard, self.state.serial, self.state.mark = opened.shard, opened.serial, opened.mark
        self._inbox.open()
        # Count the crash before any body runs: the next one may take this process down as well.
        try:
            turn = Turn(self.state, self._clock.now(), WAIT_KINDS)
            begin_trials(turn, opened)
            self._commit()
        except BaseException:
            self._backend.close()
            raise
        # The mark is cleared only after the commit: a crash in between must still be counted by the next engine.
        trials_begun(self.state)
        self._apply(turn.effects, Release())

    def run(self) -> None:
        """Work until `stop`, or until the store is lost. Never raises: the last release says why it ended."""
        end: BaseException | None = None
        try:
            while not self._inbox.is_stopping:
                self._work(wait=True)
            if self._inbox.is_clean:
                self.state.batch.clean_stop = True
                self._commit()
        except BaseException as error:
            end = error if isinstance(error, StorageError) else StorageUnavailable(f"the coordinator failed: {error!r}")
            _log.critical("the engine has stopped: %s", error, exc_info=not isinstance(error, StorageError))
        self._leave(end)

    def work_off(self) -> int:
        """Process one batch of everything queued and due now; returns the number of operations.

        `run` does the same with naps in between. Tests and the simulation call this instead.
        """
        return self._work(wait=False)

    def has_work(self) -> bool:
        """Whether something is queued or due now."""
        return self.is_recovering or self._has_kept() or self._inbox.has_work()

    def _work(self, *, wait: bool) -> int:
        if self.is_recovering:
            self.process([RecoverNext()])
            # An orderly stop does not wait for the remaining pages.
            self.is_recovering = self.state.recovery.next_after is not None and not self._inbox.is_clean
            return 1
        taken = self._inbox.take(wait=wait and not self._upkeep.has_more and not self._has_kept())
        # Letters are read after the calls were taken. So if a caller saw something happen in another shard, the letter
        # about that is handled before its call.
        limit = min(_LETTERS, self._config.max_batch)
        while len(letters := self._letters(limit)) == limit:
            self.process(letters)
        # In place: a second list would keep every answer alive until the end of the batch.
        taken[:0] = letters
        count = len(taken)
        self.process(taken)
        self._upkeep.tidy(is_idle=not count)
        return count

    def _letters(self, limit: int) -> list[Envelope | Operation[Any]]:
        """The next letters from other shards; in a store with one shard, the next requests that were kept."""
        if self.state.shard.count == 1:
            receive = self._receive
            return [] if receive is None else [receive(kept) for kept in self.state.requests.next_kept(limit)]
        return [ReadLetter(letter) for letter in self.state.outbox.read(limit)]

    def _has_kept(self) -> bool:
        return self._receive is not None and self.state.requests.has_kept

    def process(self, items: list[Envelope | Operation[Any]]) -> None:
        """Decide a batch, commit it, release it. Items in an envelope have a caller that waits for the answer.

        Consumes the list. Raises only what ends the engine: a `StorageError`, or a bug.
        """
        self._callers = [item for item in items if isinstance(item, Envelope)]
        turn = Turn(self.state, self._clock.now(), WAIT_KINDS)
        release = Release()
        if len(items) > 1:
            loaded = self.state.loaded
            # Most items are answers of activities to loaded bodies. These need no rows and are skipped without a call.
            self.state.prefetch(
                item.operation if isinstance(item, Envelope) else item
                for item in items
                if type(item) is not RecordActivity or item.key not in loaded
            )
        lists: list[Envelope] = []
        # Popped one by one, so that the result of an activity is freed before the next one makes the garbage collector
        # visit both.
        items.reverse()
        while items:
            item = items.pop()
            if not isinstance(item, Envelope):
                _decide_own(turn, item)
            elif item.operation.is_list:
                lists.append(item)
            else:
                self._answer(turn, item, release)
        if self.state.trials.next() is not None:
            hold_trials(turn)
        self.state.mark[0] = 0
        watchers = self._observers.look(turn)
        self._commit()
        # A commit into a file that was deleted must not be acknowledged.
        self._upkeep.check()
        for envelope in lists:
            self._answer(turn, envelope, release)
        if watchers:
            release.answered += self._observers.take(watchers)
        self._apply(turn.effects, release)
        if release.answered or release.activities:
            self._release(release)
        self._callers = []
        self.state.look_ahead()

    def _answer(self, turn: Turn, envelope: Envelope, release: Release) -> None:
        operation, request = envelope.operation, envelope.request
        if request is not None and (first := repeated(turn, request)) is not None:
            envelope.reply = first
            release.answered.append(envelope)
            return
        try:
            reply = answer_list(self._backend, operation, turn.now) if operation.is_list else decide_in(turn, operation)
        except (InvariantViolated, StorageError):
            # The state may be half changed. Crash-only: the thread ends, and the next start recovers.
            raise
        except DurableError as error:
            envelope.error, reply = error, None
        if request is not None:
            keep_answer(turn, request, reply, envelope.error)
        if isinstance(reply, Pending):
            self._watchers.add(reply.key, envelope)
        elif isinstance(reply, Watched):
            self._observers.add(reply.key, envelope)
        else:
            envelope.reply = reply
            release.answered.append(envelope)

    def _apply(self, effects: list[Effect], release: Release) -> None:
        """After a commit: add effects for the loop to the release, write log lines, queue operations that follow."""
        for effect in effects:
            if isinstance(effect, _FOR_THE_LOOP):
                release.activities.append(effect)
            elif isinstance(effect, Follow):
                self._inbox.follow(effect.operation)
            elif isinstance(effect, Tell):
                effect.write()
            else:
                for envelope in self._watchers.pop(effect.record):
                    envelope.reply = effect.record
                    release.answered.append(envelope)

    # --- commit ---------------------------------------------------------------------------------------------------

    def _commit(self) -> None:
        """Make the batch durable, or raise. An empty batch costs nothing."""
        batch = self.state.batch
        if batch.is_empty():
            self.state.next_batch()
            return
        self.state.seal(self._batch_number + 1)
        began = self._clock.monotonic()
        try:
            self._backend.commit(batch)
        except StorageUnavailable as error:
            self._patience.commit_again(batch, error, began)
        self._batch_number += 1
        self.state.next_batch()

    def _forget_abandoned(self) -> None:
        self._watchers.forget_abandoned()
        self._observers.forget_abandoned()

    # --- the end --------------------------------------------------------------------------------------------------

    def _leave(self, end: BaseException | None) -> None:
        """Throw memory away, close the store, and answer every waiting caller with the reason for the end."""
        for key in list(self.state.loaded):
            self.state.unload(key)
        self.state.timers.cancel_all_timers()
        try:
            self._backend.close()
        except StorageError as error:
            _log.error("the store could not be closed: %s", error)
        release = Release(self.refuse_rest(end), end=end, is_last=True)
        for envelope in [*self._callers, *self._watchers, *self._observers]:
            envelope.error = end or EngineClosed()
            release.answered.append(envelope)
        self._release(release)


def _decide_own(turn: Turn, operation: Operation[Any]) -> None:
    """Decide an operation of the engine itself. No caller waits for it, so a refusal is logged."""
    try:
        decide_in(turn, operation)
    except (InvariantViolated, StorageError):
        raise
    except DurableError as error:
        _log.error("an operation of the engine itself was refused: %s: %s", operation, error)
