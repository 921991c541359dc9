"""The checker: sees every commit that truly happened, every activity that begins or ends, every acknowledgement.

It keeps the ledger and runs the rules of commits (`rules`). The checks in this file are those of everything that leaves
the engine: bodies that run, activities, and answers to callers.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from typing import Any

from durable.backends.base import Batch, Mark
from durable.engine.operations import RunActivity, Sight
from durable.engine.state.crashes import WINDOW
from durable.model.clock import from_duration
from durable.model.homes import workflow_home
from durable.model.records import EntryKind, EntryStatus, ParkReason, WorkflowRecord, WorkflowStatus
from durable.runner.session import WorkflowSessionRunner
from durable.testing.faults import SimCrash
from simulation.activities import CLEANUP
from simulation.agenda import VirtualClock
from simulation.family import is_told_to_stop
from simulation.forked import take_over
from simulation.kinds import payload_of
from simulation.ledger import Ledger, Life
from simulation.rules import AFTER, BEFORE
from simulation.scenario import Scenario
from simulation.violation import Violation

# One activity of one round.
Name = tuple[int, int, str]


class Trace:
    """A fingerprint of everything that has happened, and the last lines of it, to find the cause of a violation."""

    def __init__(self, *, is_kept: bool) -> None:
        # Off for many seeds: only a failing seed needs its trace, and is run again for it.
        self.is_kept = is_kept
        self._hash = hashlib.blake2b(digest_size=16)
        self.tail: deque[str] = deque(maxlen=60)

    def note(self, line: str) -> None:
        """Add what has happened, as a line."""
        if not self.is_kept:
            return
        self._hash.update(line.encode())
        self.tail.append(line)

    def fingerprint(self) -> str:
        """The hash of all lines: equal only if the same things happened in the same order."""
        return self._hash.hexdigest()


class Checker:
    """Checks the invariants while a simulation runs. Raises a `Violation` for the first that is broken."""

    def __init__(self, scenario: Scenario, clock: VirtualClock, *, is_traced: bool) -> None:
        retention = from_duration("event_retention", scenario.engine_config().event_retention)
        self.ledger = Ledger(scenario.policy, retention, scenario.config.get("schedule_grace", 60), scenario.shards)
        self.trace = Trace(is_kept=is_traced)
        self._clock = clock
        self._max_crashes = scenario.engine_config().max_crashes
        # The arguments of each activity when it first ran.
        self._arguments: dict[Name, tuple[Any, ...]] = {}
        # The activities that run in this incarnation.
        self._running: set[Name] = set()
        # The ids that clients have tried to cancel or terminate, answered or not.
        self.unwanted: set[str] = set()
        # The ids whose start was acknowledged.
        self.started: set[str] = set()
        # How many cancels were accepted, by the id of the workflow and its round.
        self._cancels: Counter[tuple[str, int]] = Counter()
        self.activities = 0
        self.answers = 0
        # By shard, the cells in which engines mark whose body runs. Then the faults of bodies: the steps, by count, in
        # which the process dies; the workflows that kill it, by id, after how many entries; and how often each did.
        self.marks: list[Mark] = []
        self.deadly_steps: set[int] = set()
        self.is_stopping = False
        self.poison: dict[str, int] = {}
        self._steps = 0
        self._deaths: Counter[str] = Counter()
        # By shard: whether the last engine had the code; and until when workflows with an activity at an unclean stop
        # may run it only on trial.
        self._had_code: dict[int, bool] = {}
        self._trials_until: dict[int, int] = {}
        # A violation that could not be raised where it was found, because the engine would handle it as an error of its
        # own. The next commit raises it.
        self.broken: Violation | None = None

    # --- the store --------------------------------------------------------------------------------------------------

    def opened(self, *, clean: bool) -> None:
        """An engine has opened the present shard."""
        self.trace.note(f"open clean={clean}")
        ledger = self.ledger
        shard = ledger.shard
        self._running = {name for name in self._running if not ledger.is_here(name[0])}
        self._trials_until[shard] = 0 if clean else self._clock.elapsed + WINDOW
        # An orderly stop clears the crash counts of bodies, but not that of an engine without the code to run them.
        is_forgiven = clean and self._had_code.get(shard, True)
        if is_forgiven:
            homes = {killer: workflow_home(killer.partition(",")[0], ledger.shards) for killer in self._deaths}
            self._deaths = Counter({killer: count for killer, count in self._deaths.items() if homes[killer] != shard})
        ledger.open(clean=clean, is_forgiven=is_forgiven, marked=self.marks[shard][0])
        self._had_code[shard] = ledger.has_code

    def committed(self, batch: Batch, mark: int = 0) -> None:
        """A commit of the present shard has truly happened, whatever the engine gets as its result."""
        if self.broken is not None:
            raise self.broken
        try:
            self.ledger.post.read(batch, self.ledger.shard, mark)
            self._check(batch, self._clock.now())
        except Violation as violation:
            self.broken = violation
            raise

    def _check(self, batch: Batch, now: int) -> None:
        """Run the rules around the booking of a commit."""
        ledger = self.ledger
        batch = take_over(ledger, batch)
        for rule in BEFORE:
            rule(ledger, batch, now)
        self._check_parking(batch)
        self._check_cancelling(batch)
        ledger.book(batch, now)
        for rule in AFTER:
            rule(ledger, batch, now)
        if self.trace.is_kept:
            self._note(batch)

    def _note(self, batch: Batch) -> None:
        """Add a commit to the trace."""
        lines = [f"commit {batch.number} at {self._clock.elapsed} serial {batch.serial}"]
        for key, (seq, position, kind, name, status, outcome, at, _) in batch.history:
            # The error of a child holds a traceback, and so the paths of this machine.
            is_of_child = kind in (EntryKind.CHILD, EntryKind.RESULT)
            shown = "" if is_of_child and status is EntryStatus.ERROR else outcome
            lines.append(f" {key} {seq} {position} {name} {status._value_} {at} {shown}")
        for record in (*batch.workflows_new.values(), *batch.workflows_changed.values()):
            state = f"{record.status._value_} {record.round} {record.wake_at} {record.crashes} {record.result}"
            lines.append(f" {record.id} {state}")
        self.trace.note("\n".join(lines))

    def _check_parking(self, batch: Batch) -> None:
        """A workflow is parked as CRASHED only after `max_crashes` unclean stops.

        Counted are those in which its body ran, since the last orderly stop, or all of them since its last progress.
        """
        for key, record in batch.workflows_changed.items():
            life = self.ledger.lives[key]
            is_news = record.park_reason is ParkReason.CRASHED and life.record.park_reason is None
            if is_news and max(life.stops, life.deaths) < self._max_crashes:
                counts = f"{life.stops} unclean stops, in {life.deaths} of which its body ran"
                raise Violation("I26", f"{record.id} is parked after {counts}")

    def _check_cancelling(self, batch: Batch) -> None:
        """A workflow is cancelled only if a client or its parent wanted it to stop."""
        for record in (*batch.workflows_new.values(), *batch.workflows_changed.values()):
            life = self.ledger.lives.get(record.key)
            is_news = record.cancel_requested and not (life is not None and life.record.cancel_requested)
            is_alone = record.parent_key is None or not is_told_to_stop(self.ledger, batch, record)
            if is_news and is_alone and record.id not in self.unwanted:
                raise Violation("I21", f"{record.id} is cancelled, and neither a client nor its parent asked for it")

    # --- bodies -----------------------------------------------------------------------------------------------------

    def enter(self, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
        """A body begins a step. It must be marked, so that the next engine knows in whose body the process died.

        Part of the engine's hook around bodies (`State.watch`), as is `leave`. Raises `SimCrash` for a deadly step.
        """
        marked = self.marks[self.ledger.shard][0]
        if marked != record.key and self.broken is None:
            # Raised by the next commit: here the engine would handle it as an error of the body.
            self.broken = Violation("I26", f"the body of {record.id} runs, and {marked} is marked")
        self._steps += 1
        if self.is_stopping:
            # During an orderly stop, a crash would look like the end of the thread, which cleans up.
            self._deaths.clear()
            return
        if self._steps in self.deadly_steps:
            raise SimCrash
        life = self.ledger.lives.get(record.key)
        harmless = self.poison.get(record.id)
        # A body that kills from the start does so in its first step too, before its workflow is stored.
        is_stepped = session.interpreter.stepped is not None or harmless == 0
        if harmless is not None and is_stepped and (0 if life is None else life.seq) >= harmless:
            # A workflow that is not stored yet cannot be parked, but must not kill without end. Even if it is stored
            # first, a cancel in the same batch has to run its body.
            killer, limit = (record.id, self._max_crashes) if life is not None else (f"{record.id}, not stored,", 4)
            self._deaths[killer] += 1
            if self._deaths[killer] > limit and self.broken is None:
                self.broken = Violation("I26", f"{killer} killed {self._deaths[killer]} times and is not parked")
            raise SimCrash

    def leave(self) -> None:
        """The body has ended its step."""

    # --- activities -------------------------------------------------------------------------------------------------

    def began(self, effect: RunActivity) -> None:
        """An activity begins to run: a commit must have asked for it, with these arguments, at this time."""
        name = (effect.key, effect.round, effect.position)
        self.trace.note(f"begin {name} {effect.attempt}")
        life = self.ledger.lives.get(effect.key)
        if life is None or life.record.status.is_terminal or life.record.round != effect.round:
            raise Violation("I6", f"activity {name} runs, and no commit says that it should")
        if effect.position in life.done:
            raise Violation("I9", f"activity {name} runs again after its outcome was recorded")
        if name in self._running:
            raise Violation("I10", f"activity {name} runs twice at once")
        self._check_attempt(life, effect)
        is_tried = effect.key in self.ledger.suspects
        if life.is_suspect and not is_tried and self._clock.elapsed < self._trials_until[self.ledger.shard]:
            raise Violation("I26", f"activity {name} runs again after an unclean stop, and is not on trial")
        if life.record.cancel_requested and effect.definition not in CLEANUP:
            raise Violation("I21", f"activity {name} runs after its workflow was cancelled")
        if self._arguments.setdefault(name, effect.args) != effect.args:
            raise Violation("I24", f"activity {name} ran with {self._arguments[name]}, and now with {effect.args}")
        self._running.add(name)
        self.activities += 1

    def _check_attempt(self, life: Life, effect: RunActivity) -> None:
        """An attempt has the next number, comes not before its time, and not after the last allowed one."""
        failed, retry_at = life.failed.get(effect.position, (0, 0))
        max_attempts = effect.definition.retry.max_attempts
        if effect.attempt != failed + 1 or (max_attempts is not None and effect.attempt > max_attempts):
            seen = f"attempt {effect.attempt} of {effect.position} begins, {failed} failures are recorded"
            raise Violation("I11", f"{life.record.id}: {seen}")
        if self._clock.now() < retry_at:
            raise Violation("I11", f"{life.record.id}: attempt {effect.attempt} begins before its time, {retry_at}")

    def answered(self, effect: RunActivity, outcome: str) -> None:
        """An attempt has ended, and its result is on its way to the coordinator."""
        self.answers += 1
        self._running.discard((effect.key, effect.round, effect.position))
        attempt = (effect.key, effect.round, effect.position, effect.attempt)
        self.ledger.answers.setdefault(attempt, []).append(outcome)

    def stopped(self, name: Name) -> None:
        """An activity was stopped. A result that it still delivers must be ignored."""
        self._running.discard(name)

    # --- acknowledgements -------------------------------------------------------------------------------------------

    def seen(self, record: WorkflowRecord) -> Life:
        """A caller was shown a record: the workflow must be stored, and an end that was shown must be final."""
        life = self.ledger.life(record.id)
        if life is None:
            raise Violation("I1", f"{record.id} was shown to a caller and is not stored")
        if record.status.is_terminal and record != life.record and not life.was_reopened:
            raise Violation("I5", f"{record.id} was shown as {record}, stored is {life.record}")
        return life

    def watched(self, id: str, sight: Sight) -> None:
        """A watcher was shown a workflow: exactly that status and progress must be stored."""
        life = self.ledger.life(id)
        progress = None if life is None else self.ledger.progress.get(life.record.key)
        shown = (sight.status, sight.progress)
        if life is None or shown != (life.record.status, None if progress is None else progress.value):
            raise Violation("I5", f"{id} was shown as {sight}; stored is {life and life.record} {progress}")

    def accepted(self, event_id: str) -> None:
        """A sender got the answer that its event is kept or delivered: it must be stored."""
        payload = payload_of(event_id)
        if event_id not in self.ledger.mail.sent or payload not in self.ledger.mail.places:
            raise Violation("I16", f"event {event_id} was acknowledged and is not stored")

    def cancelled(self, id: str, reply: bool) -> None:
        """A caller got the answer that a workflow is being cancelled (True) or has ended (False): it must be true."""
        life = self.ledger.life(id)
        has_ended = life is not None and (life.has_ended or life.was_reopened)
        if life is None or not (life.record.cancel_requested if reply else has_ended):
            raise Violation("I21", f"cancel of {id} was answered {reply}: {life and life.record}")

    def cancelled_again(self, id: str) -> None:
        """A cancel was accepted: it must have been raised in the body, no matter how many came before it."""
        life = self.ledger.life(id)
        if life is None or life.has_ended or life.record.cancel_pending:
            return
        # A child that is restarted begins another round.
        which = (id, life.record.round)
        self._cancels[which] += 1
        raised = sum(entry.kind is EntryKind.CANCEL for entry in life.entries)
        if raised < self._cancels[which]:
            raise Violation("I21", f"{self._cancels[which]} cancels of {id} were accepted, {raised} were raised")

    def mending(self, id: str) -> None:
        """An operator retries a workflow: the count of its crashes starts again."""
        self.ledger.mended.add(id)
        self._deaths.pop(id, None)

    def is_parked(self, id: str | None) -> bool:
        """Whether a workflow is stored as parked."""
        life = self.ledger.life(id)
        return life is not None and life.record.status is WorkflowStatus.PARKED
