"""Drives a body: steps its fibers, opens and withdraws waits, starts and joins branches, closes losers.

The body is driven by a loop over ready fibers, never by recursion: 100,000 steps that resolve at once do not grow the
stack. What drives it on (entries, cancellation, replay) is the session's business.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Any

from durable.clock import later, to_datetime
from durable.codec import Codec
from durable.errors import Cancelled, OperationMisused, SessionClosed
from durable.records import EntryKind
from durable.runner.children import Spawn
from durable.runner.definitions import ActivityCall, ContinueRequested, WorkflowCall
from durable.runner.determinism import Ambient, Identity
from durable.runner.events import EventSend
from durable.runner.fibers import Fiber, Group, WaitCondition, keep_if_open, source_line
from durable.runner.loops import Loop, LoopState, rounds_of
from durable.runner.misuse import not_taken, raised, returned
from durable.runner.ops import STEPPING, Branches, Leaf, Op, Outcome, Raised, Returned, Timer
from durable.runner.pauses import PauseOp
from durable.runner.results import Completed, ContinueAs, Failed, SessionResult, Suspended, end_of
from durable.runner.rivals import has_rival, rivals_of

_log = logging.getLogger("durable")
# What starts a child. A tuple: `isinstance` takes three times as long with a union.
_CALLS = (WorkflowCall, Spawn)
# A name of its own, for every step: to Python 3.11 a member of an enum is as dear as a call.
_ACTIVITY = EntryKind.ACTIVITY
NOTHING_TRIMMED: frozenset[int] = frozenset()


class Interpreter(Ambient):
    """Fibers, their open waits, and what has come of them since the last answer."""

    def __init__(self, who: Identity, start_at: int, codec: Codec) -> None:
        super().__init__(who, start_at)
        # Open waits by position, in the order in which they were opened; those with a deadline; how many activities.
        self.waits: dict[str, WaitCondition] = {}
        self.timed: dict[str, WaitCondition] = {}
        self.open_activities = 0
        self.announced: Op[Any] | None = None
        self.answer: Any = None
        # No list without anything in it, here and below: the garbage collector comes by every list of every body.
        self.dropped: list[str] | None = None
        # The fiber that is being stepped, or was last.
        self.stepped: Fiber | None = None
        # What was published since anybody looked, and after which entry.
        self.published: tuple[int, str] | None = None
        # Whether it has spawned a child.
        self.has_spawned = False
        # Whether it has come by a loop, and the entries of finished rounds that nobody needs any more.
        self.has_loop = False
        self.trimmed: frozenset[int] = NOTHING_TRIMMED
        self._codec = codec
        # Fibers that can go on; what was opened and withdrawn since the last answer.
        self._ready: deque[tuple[Fiber, Outcome]] | None = None
        self._opened: list[WaitCondition] | None = None
        self._withdrawn: list[WaitCondition] | None = None
        self._end: SessionResult | None = None

    def withdrawn(self) -> Sequence[WaitCondition]:
        """The waits that a body which has ended gave up on its way out."""
        return self._withdrawn or ()

    def publish(self, value: object) -> None:
        """Keep a value to show. Raises `CodecError`."""
        if self.closing:
            # A body that is let go of has not got any further.
            return
        coder = self._codec.coder(type(value), f"workflow {self.who.name}: progress")
        self.published = (self.fed, coder.pack(value)[0])

    def _advance(self, fiber: Fiber | None = None, outcome: Outcome | None = None) -> SessionResult:
        """Run a fiber, and all that become ready by it, until everything waits."""
        token = STEPPING.set(self)
        try:
            if fiber is not None:
                self._step(fiber, outcome)
            while self._ready and self.overrun is None:
                fiber, outcome = self._ready.popleft()
                if fiber.is_live:
                    self._step(fiber, outcome)
        finally:
            STEPPING.reset(token)
        if self._end is not None:
            return self._end
        progress = Suspended(self._opened or (), self._withdrawn or ())
        self._opened = self._withdrawn = None
        return progress

    def _resume(self, fiber: Fiber, outcome: Outcome) -> None:
        """Have a fiber go on when those before it wait."""
        if self._ready is None:
            self._ready = deque()
        self._ready.append((fiber, outcome))

    def _step(self, fiber: Fiber, outcome: Outcome | None) -> None:
        """Run one fiber until it waits or ends."""
        self.stepped = fiber
        while outcome is not None:
            try:
                if isinstance(outcome, Raised):
                    op = fiber.body.throw(outcome.error)
                elif fiber.started:
                    self.answer = outcome.value
                    op = fiber.body.send(self)
                else:
                    fiber.started = True
                    op = fiber.body.send(None)
            except StopIteration as stop:
                self._finish(fiber, self._misuse() or returned(self.who.name, fiber, stop.value))
                return
            except ContinueRequested as request:
                self._finish(fiber, request)
                return
            except BaseException as error:
                self.dropped = None
                self._finish(fiber, raised(self.who.name, fiber, error))
                return
            outcome = self._misuse() if self.dropped else self._take(fiber, op)

    def _misuse(self) -> Raised | None:
        dropped, self.dropped = self.dropped, None
        return Raised(OperationMisused("; ".join(dropped))) if dropped else None

    def _take(self, fiber: Fiber, op: object) -> Outcome | None:
        """The fiber yielded something: the outcome if it is known at once, None if the fiber must wait."""
        announced, self.announced = self.announced, None
        if op is not announced or announced is None:
            return Raised(OperationMisused(not_taken(self.who.name, op, source_line(fiber.body))))
        position = f"{fiber.prefix}{fiber.count}"
        fiber.count += 1
        try:
            # Nearly every body is a plain generator that waits in that of an operation: no call for those.
            is_flat = fiber.body.gi_yieldfrom.gi_yieldfrom is None
        except AttributeError:
            is_flat = False
        is_full = len(self.waits) >= self.max_waits
        if (is_full or not is_flat) and self.is_live and self.is_beyond(len(self.waits) + 1, fiber.body):
            return None
        if not isinstance(announced, Leaf):
            assert isinstance(announced, Branches), "an operation that wraps another one announces that"
            return self._branch(fiber, announced, position)
        wait = WaitCondition(position, announced, fiber, self.now)
        try:
            if isinstance(announced, ActivityCall):
                coder = announced.definition.coder(self._codec)
                wait.args, wait.kwargs = coder.copy_arguments(announced.args, announced.kwargs)
                self.open_activities += 1
            elif (known := self._prepare(wait, wait.op)) is not None:
                return known
        except Exception as error:
            return Raised(error)
        fiber.wait = self.waits[position] = wait
        if self._opened is None:
            self._opened = [wait]
        else:
            self._opened.append(wait)
        return None

    def _prepare(self, wait: WaitCondition, op: Leaf[Any]) -> Outcome | None:
        """Fill in what the engine needs to know of a wait; the outcome, if there is nothing to wait for."""
        if isinstance(op, Timer):
            wait.deadline = op.until if op.duration is None else later("sleep", self.now, op.duration)
            if op.eager and wait.deadline is not None and wait.deadline <= self.now and not has_rival(self, wait):
                return Returned(to_datetime(self.now))
            self.timed[wait.position] = wait
        elif isinstance(op, _CALLS):
            coder = op.definition.coder(self._codec)
            coder.check(op.args, op.kwargs)
            wait.input = coder.pack_arguments(op.args, op.kwargs)
        elif isinstance(op, (LoopState, EventSend)):
            wait.input = op.pack(self._codec)
        elif op.kind is EntryKind.REMOVED:
            # The child that was called here may still run; its parent's end will find it in the store only.
            self.has_spawned = True
            if self.past.last_at(wait.position) is None:
                return Returned(None)
        elif isinstance(op, PauseOp):
            # Only to see that answers can be stored: the person who gives one should not be the first to learn.
            op.coder(self._codec)
            wait.input = op.pack_prompt(self._codec)
            if op.expires_after is not None:
                wait.deadline = later("pause: expires_after", self.now, op.expires_after)
                self.timed[wait.position] = wait
        return None

    def _branch(self, fiber: Fiber, op: Branches[Any], position: str) -> Outcome | None:
        if isinstance(op, Loop):
            past = self.past.loops.get(position)
            self.has_loop = True
            # Perhaps in rounds that are not run again.
            self.has_spawned = self.has_spawned or past is not None
            try:
                group: Group = rounds_of(op, fiber, position, self._codec, past)
            except Exception as error:
                # A body that cannot be looked into, or a state that cannot be stored.
                return Raised(error)
            # What a body does when it is called, before its first step, it does in its round.
            self.stepped = Fiber(None, "", group, 0)
        else:
            group = Group(op.tally(), op.each(), fiber, position, op.labels() if self.names_branches else ())
            group.rivals = rivals_of(op)
        self._open(group, op.limit)
        if not group.fibers:
            return group.tally.empty()
        fiber.group = group
        return None

    def _open(self, group: Group, limit: int | None) -> None:
        """Start up to so many more branches. Making one may run code of the body, which may misuse an operation."""
        for fiber in group.open(limit):
            self._resume(fiber, self._misuse() or Returned(None))
            if self.is_live and self.is_beyond(len(self.waits) + len(self._ready or ())):
                break

    # --- endings --------------------------------------------------------------------------------------------------

    def _finish(self, fiber: Fiber, outcome: Outcome | ContinueRequested) -> None:
        fiber.is_live = False
        group = fiber.owner
        if group is None:
            self._end_with(end_of(outcome))
            return
        if isinstance(outcome, ContinueRequested):
            outcome = Raised(OperationMisused("continue_as inside a branch: only the workflow itself can continue"))
        del group.fibers[fiber.index]
        verdict: Outcome | None = None if group.fibers else Raised(Cancelled(self._cancel_reason))
        if not group.is_cancelling:
            verdict = group.tally.finished(fiber.index, outcome)
            if verdict is None and group.rest is not None:
                self._open(group, 1)
        if verdict is not None:
            self._conclude(group, verdict)

    def _end_with(self, end: Completed | Failed | ContinueAs) -> None:
        """The body has come to its end."""
        self._end = end

    def _conclude(self, group: Group, verdict: Outcome) -> None:
        """Branches are decided: close the losers, and hand the verdict to the fiber that waits."""
        for loser in group.fibers.values():
            self._close(loser)
        group.fiber.group = None
        self._resume(group.fiber, verdict)

    def _drop(self, wait: WaitCondition) -> None:
        del self.waits[wait.position]
        if wait.kind is _ACTIVITY:
            self.open_activities -= 1
        if self.timed:
            self.timed.pop(wait.position, None)
        wait.fiber.wait = None

    def _withdraw(self, wait: WaitCondition) -> None:
        self._drop(wait)
        if self._withdrawn is None:
            self._withdrawn = []
        self._withdrawn.append(wait)

    def _close(self, fiber: Fiber) -> None:
        """End a fiber and all below it, without running any operation of theirs."""
        if not fiber.is_live:
            return
        fiber.is_live = False
        if fiber.wait is not None:
            self._withdraw(fiber.wait)
        if fiber.group is not None:
            for branch in fiber.group.fibers.values():
                self._close(branch)
        self.closing = 1
        try:
            fiber.body.close()
        except SessionClosed:
            pass
        except BaseException as error:
            _log.error("workflow %s (%s) could not be closed in order: %r", self.who.id, self.who.name, error)
            keep_if_open(fiber.body)
        finally:
            self.closing = 0
            self.dropped = None
