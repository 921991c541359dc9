"""`WorkflowSessionRunner`: interprets one workflow body, and knows nothing of storage, engines or other workflows.

Two verbs move it: `start()` and `feed(entry)`. Both say what the body now asks for or how it ended. Replay is the same
loop fed with the stored entries in their recorded order, so the winner of a race needs no record of its own, and a
replayed run cannot differ from the live one.

An entry that the body does not wait for is a divergence: `HistoryDiverged` is raised and nothing has changed
outside this object, which is then thrown away.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from durable.clock import LATEST, to_datetime
from durable.codec import Codec, Coder
from durable.errors import Cancelled, HistoryDiverged
from durable.outcomes import unpack_error
from durable.position import Position
from durable.records import EntryKind, EntryStatus, HistoryEntry
from durable.runner.agenda import arranged, due_by, earliest
from durable.runner.children import ChildOp, ChildResult
from durable.runner.definitions import ActivityCall, WorkflowCall, WorkflowDef
from durable.runner.determinism import Identity
from durable.runner.events import EventOp, EventSend
from durable.runner.fibers import Fiber, WaitCondition, groups_around, source_line
from durable.runner.loops import LoopState, Rounds, courses_around
from durable.runner.ops import STEPPING, Leaf, Outcome, Raised, Returned, Timer
from durable.runner.past import NOTES, Past, Retried, RoundState
from durable.runner.pauses import PauseOp
from durable.runner.results import Completed, ContinueAs, SessionResult, Suspended
from durable.runner.undo import Undoer, shield_of

_UNREAD: Any = object()
# Names of their own, for every step: to Python 3.11 a member of an enum is as dear as a call.
_RETRY, _ERROR = EntryStatus.RETRY, EntryStatus.ERROR
# What brings a result from outside. Tuples, here too: `isinstance` takes long with a union.
_CALLS = (ActivityCall, WorkflowCall)
_TYPED = (PauseOp, ChildResult)


class WorkflowSessionRunner(Undoer):
    """One live body."""

    def __init__(
        self,
        definition: WorkflowDef[Any, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        who: Identity,
        start_at: int,
        codec: Codec,
    ) -> None:
        super().__init__(who, start_at, codec)
        self._call = (definition.fn, args, kwargs)
        self._root: Fiber | None = None

    # --- the two verbs --------------------------------------------------------------------------------------------

    def start(self) -> SessionResult:
        """Run the body to its first wait."""
        fn, args, kwargs = self._call
        self._root = Fiber(fn(*args, **kwargs), "", None, 0)
        return self._advance(self._root, Returned(None))

    def feed(self, entry: HistoryEntry, value: Any = _UNREAD) -> SessionResult:
        """Give the body what is recorded next, and run it to its next wait.

        `value` is the entry's outcome where the caller has read it already. Raises `HistoryDiverged`, or `CodecError`
        for an outcome that cannot be read.
        """
        self.fed = entry.seq
        wait = self.waits.get(entry.position)
        if wait is None or wait.kind is not entry.kind or wait.name != entry.name:
            return self._feed_aside(entry, wait)
        if self.has_loop:
            self._note(wait, entry)
        status = entry.status
        if status is _RETRY:
            wait.attempt += 1
            wait.retry_at = entry.retry_at_us
            wait.error = entry.outcome
            self.timed[entry.position] = wait
            if isinstance(wait.op, ActivityCall):
                # The attempt that has failed may have changed the arguments that it was given.
                coder = wait.op.definition.coder(self._codec)
                wait.args, wait.kwargs = coder.copy_arguments(wait.op.args, wait.op.kwargs)
            return Suspended()
        outcome: Outcome
        if status is _ERROR:
            outcome = Raised(unpack_error(entry.outcome))
            if entry.kind is EntryKind.CHILD:
                # An operator may have it go on, though nobody waits for it any more.
                self.has_spawned = True
        else:
            outcome = Returned(self._read(wait.op, entry) if value is _UNREAD else value)
        self._drop(wait)
        if entry.at_us > self.now:
            # The wall clock may have been set back between two entries; a workflow's own time never is.
            self.now = entry.at_us
        return self._advance(wait.fiber, outcome)

    def replay(self, entries: Iterable[HistoryEntry], *, is_new_fork: bool = False) -> SessionResult:
        """Start, and feed everything that is recorded. What the body then waits for stands in `waits`.

        A fork that is new does for the first time what comes behind the last entry that was copied.
        """
        self.past = Past(entries)
        self.has_spawned = self.past.mends > 0
        lived = self.past.forks[-1][0] if is_new_fork else None
        self.is_live = lived == 0
        result = self.start()
        for entry in self.past.entries:
            self.is_live = self.is_live or entry.seq == lived
            result = self.feed(entry)
        self.is_live = True
        # A body in memory does not keep its history there.
        self.past.forget()
        return result

    def close(self) -> None:
        """Throw the body away. Operations in its `finally` blocks do not run."""
        if self._root is None or self._end is not None:
            return
        token = STEPPING.set(self)
        try:
            for fiber in (self._root, *self._abandon()):
                self._close(fiber)
        finally:
            STEPPING.reset(token)

    # --- what others may ask --------------------------------------------------------------------------------------

    def wake_at(self, in_flight: Container[str] = ()) -> int | None:
        """The earliest open deadline: of a timer, of a pause, or of a retry that is not in flight yet."""
        if not self.timed:
            return None
        self.timed = arranged(self.timed)
        return earliest(self.timed, in_flight)

    def due(self, now: int) -> list[WaitCondition]:
        """The timers, pauses and retries whose time has come, the earliest first."""
        self.timed = arranged(self.timed)
        return due_by(self.timed, now)

    def source(self, position: str) -> str | None:
        """File and line of the body at an open wait."""
        wait = self.waits.get(position)
        if wait is None:
            return None
        fiber: Fiber | None = wait.fiber
        # A branch that is a bare operation has no line of its own: its owner's is where it was written.
        while fiber is not None:
            if line := source_line(fiber.body):
                return line
            fiber = fiber.owner.fiber if fiber.owner else None
        return None

    def _drawing(self) -> tuple[str, tuple[str, ...], dict[str, int]]:
        """In a round of a loop draws follow from the round: those before it may not be run again."""
        id, where, asked = super()._drawing()
        for group in groups_around(self.stepped) if self.stepped is not None else ():
            if isinstance(group, Rounds):
                return id, (f"{group.position}.{group.course.round}",), group.course.asked
        return id, where, asked

    # --- reading entries ------------------------------------------------------------------------------------------

    def coder_of(self, op: Leaf[Any]) -> Coder | None:
        """The coder of an operation's result; None for one that brings no value from outside. Raises `CodecError`."""
        if isinstance(op, _CALLS):
            return op.definition.coder(self._codec).result
        if isinstance(op, EventOp):
            return op.event.coder(self._codec)
        if isinstance(op, _TYPED):
            return op.coder(self._codec)
        return None

    def _read(self, op: Leaf[Any], entry: HistoryEntry) -> Any:
        if (coder := self.coder_of(op)) is not None:
            return coder.unpack(entry.outcome)
        if isinstance(op, ChildOp):
            self.has_spawned = True
            return op.read(entry.outcome, self._codec)
        if isinstance(op, LoopState):
            return RoundState.read(entry.outcome, op.coder)
        return None if isinstance(op, EventSend) else to_datetime(entry.at_us)

    def _note(self, wait: WaitCondition, entry: HistoryEntry) -> None:
        """Tell the loops around a wait what their rounds have learnt, and find out what is not needed any more."""
        courses = courses_around(wait.fiber)
        if isinstance(wait.op, LoopState) and entry.status is EntryStatus.OK:
            trimmed = courses.pop(0).begin(entry.seq)
            for course in courses:
                course.forget(trimmed)
            self.trimmed = self.trimmed | trimmed
        for course in courses:
            course.note((entry.seq,))

    def _feed_aside(self, entry: HistoryEntry, wait: WaitCondition | None) -> SessionResult:
        """Take an entry that no wait asks for: a cancellation, a refused result, a retry, or a step that is gone."""
        if entry.kind is EntryKind.CANCEL:
            return self._cancel(entry)
        if entry.kind is EntryKind.REFUSAL and isinstance(self._end, Completed):
            return self._refuse(entry)
        if entry.kind in NOTES:
            return self._resume_after(entry)
        position = Position(entry.position)
        while wait is None and (position := position.parent):
            # It may be a whole group that is gone.
            wait = self.waits.get(position)
        is_itself = position == entry.position
        if wait is None or wait.kind is not EntryKind.REMOVED or (is_itself and wait.name != entry.name):
            raise self._diverged(entry)
        self._note(wait, entry)
        if entry.seq != self.past.last_at(position):
            return Suspended()
        self._drop(wait)
        self.now = max(self.now, entry.at_us)
        return self._advance(wait.fiber, Returned(None))

    def _resume_after(self, entry: HistoryEntry) -> SessionResult:
        """A failed workflow, or what was copied of one, goes on: the time in which it lay there counts for no limit.

        The step that is done again begins only now, and all that the last step of a copy has begun.
        """
        now, self.now = self.now, max(self.now, entry.at_us)
        is_copy = entry.kind is EntryKind.FORKED
        lain = self.now - now if is_copy else Retried.of(entry).lain
        for wait in self.waits.values():
            is_begun = wait.opened_at == now if is_copy else wait.position == entry.position
            if wait.deadline is not None and _is_moved(wait, is_begun):
                more = self.now - wait.opened_at if is_begun else lain
                wait.deadline = min(LATEST, wait.deadline + more)
            if is_begun:
                wait.opened_at = self.now
        # In their new order.
        self.timed = dict(self.timed)
        # With code that was mended it may even have come to its end.
        return Suspended() if self._end is None else self._end

    def _diverged(self, entry: HistoryEntry) -> HistoryDiverged:
        recorded = f"{entry.kind.value} {entry.name}"
        if (wait := self.waits.get(entry.position)) is not None:
            asked = str(wait)
        elif self._end is not None:
            asked = "nothing: the workflow has ended"
        else:
            asked = "nothing here; it waits for " + ", ".join(f"{one} at {one.position}" for one in self.waits.values())
        return HistoryDiverged(self.who.id, entry.position, recorded, asked)

    def _cancel(self, entry: HistoryEntry) -> SessionResult:
        """Raise `Cancelled` at every open wait; groups end when all their branches have cleaned up.

        An undo that runs is left alone, and what comes after it is cancelled. A body that has caught an earlier
        cancellation and waits again is told again.
        """
        self.is_cancelled = True
        self._cancel_reason = self._codec.coder(str | None, "reason of a cancellation").unpack(entry.outcome)
        self.now = max(self.now, entry.at_us)
        if isinstance(self._end, (Completed, ContinueAs)):
            # It was asked for before the body, rebuilt with other code, came to this end: what it owes is undone.
            return self._end_otherwise(Cancelled(self._cancel_reason))
        for wait in list(self.waits.values()):
            shield = shield_of(wait.fiber)
            if shield is None:
                self._withdraw(wait)
                self._resume(wait.fiber, Raised(Cancelled(self._cancel_reason)))
            owner = (shield or wait.fiber).owner
            while owner is not None:
                owner.is_cancelling = True
                owner = owner.fiber.owner
        return self._advance()

    def _refuse(self, entry: HistoryEntry) -> SessionResult:
        """What the body returned cannot be stored: it fails after all, and what it owes is undone."""
        self.now = max(self.now, entry.at_us)
        return self._end_otherwise(unpack_error(entry.outcome))

    def _end_otherwise(self, error: BaseException) -> SessionResult:
        """A body that has ended well ends with an error instead."""
        assert self._root is not None, "it has ended"
        self._end = None
        token = STEPPING.set(self)
        try:
            self._finish(self._root, Raised(error))
        finally:
            STEPPING.reset(token)
        return self._advance()


def _is_moved(wait: WaitCondition, is_begun: bool) -> bool:
    """Whether a deadline moves when a workflow has lain there: that of a sleep does not, unless it begins only now."""
    if isinstance(wait.op, Timer) and wait.op.eager:
        return is_begun and wait.op.duration is not None
    return True
