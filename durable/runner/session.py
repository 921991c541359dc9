"""`WorkflowSessionRunner`: runs one workflow body. It knows nothing about storage, engines or other workflows.

Two methods drive it: `start()` and `feed(entry)`. Both return the waits that the body has opened and withdrawn, or its
end. A replay is the same calls with the stored entries in their recorded order. So the winner of a race needs no
record, and a replay cannot differ from the live run.

An entry that the body does not wait for raises `HistoryDiverged`. Nothing outside of the session has changed by then;
the caller closes the session and parks the workflow.

Most entries take the short way through `feed`. `_feed_aside` handles those without a matching wait: cancellations,
refused results, notes of operators, and the records of removed steps.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from durable.errors import HistoryDiverged
from durable.model.clock import LATEST
from durable.model.codec import Codec, Coder
from durable.model.error_codec import unpack_error
from durable.model.position import Position
from durable.model.records import EntryKind, EntryStatus, FailedUndo, HistoryEntry
from durable.runner.ambient import Identity, Positions
from durable.runner.definitions import WorkflowDef
from durable.runner.draws import Draws
from durable.runner.fibers import WaitCondition, Waits, source_around
from durable.runner.interpreter import Interpreter
from durable.runner.kinds import KINDS
from durable.runner.limits import UNLIMITED
from durable.runner.loops import note
from durable.runner.ops import Leaf, Outcome, Raised, Returned
from durable.runner.past import NOTHING, Past, Retried
from durable.runner.results import Completed, Failed, SessionResult, Suspended
from durable.runner.undo import Owed

_UNREAD: Any = object()
NOTHING_TRIMMED: frozenset[int] = frozenset()
# Bound once: attribute access on an enum costs a call on Python 3.11, and every step needs these.
_RETRY, _ERROR = EntryStatus.RETRY, EntryStatus.ERROR
# Creates an object without calling `__init__`. Only for objects that every step creates.
_new = object.__new__


class WorkflowSessionRunner:
    """One live body. Only the thread that feeds it may call it, and every call may run code of the body."""

    __slots__ = (
        "_call", "answers", "codec", "draws", "fed", "has_loop", "has_spawned", "interpreter", "is_closed", "is_live",
        "max_waits", "names_branches", "now", "overrun", "past", "published", "registered", "trimmed", "waits", "who",
    )  # fmt: skip

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
        self._call = (definition.fn, args, kwargs)
        # Its parts. `Draws` is made at the first draw.
        self.waits = Waits()
        self.interpreter = Interpreter()
        self.draws: Draws | None = None
        # Read by its parts and its body: see `Ambient`.
        self.who = who
        self.codec = codec
        self.now = start_at
        self.fed = 0
        self.past = NOTHING
        self.is_live, self.is_closed = True, False
        self.registered: Positions = tuple
        self.names_branches = True
        self.max_waits = UNLIMITED
        # Results of its steps for the engine, besides the waits.
        self.overrun: Exception | None = None
        self.has_spawned = False
        self.has_loop = False
        self.answers: tuple[tuple[str, bool], ...] = ()
        self.published: tuple[int, str] | None = None
        # Entries of finished rounds that the engine may trim from the history.
        self.trimmed: frozenset[int] = NOTHING_TRIMMED

    # --- start, feed, replay, close -------------------------------------------------------------------------------

    def start(self) -> SessionResult:
        """Run the body to its first wait."""
        fn, args, kwargs = self._call
        # A body starts once. Do not keep its arguments in memory for as long as it waits.
        del self._call
        return self.interpreter.start(self, fn(*args, **kwargs))

    def feed(self, entry: HistoryEntry, value: Any = _UNREAD) -> SessionResult:
        """Give the body the next entry, and run it to its next wait.

        `value` is the decoded result of the entry, if the caller has it already. Raises `HistoryDiverged`, or
        `CodecError` for an outcome that cannot be decoded.
        """
        # Unpacked at once: every step passes here, and reading one field of a named tuple costs as much as all of them.
        self.fed, position, kind, name, status, _, at, _ = entry
        waits = self.waits
        wait = waits.get(position)
        if wait is None or wait.kind is not kind or wait.name != name:
            return self._feed_aside(entry, wait)
        if self.has_loop:
            self.trimmed |= note(wait, entry)
        if status is _RETRY:
            return self._feed_retry(entry, wait)
        if value is _UNREAD:
            outcome = self._outcome(entry, wait)
        else:
            outcome = _new(Returned)
            outcome.value = value
        waits.drop(wait)
        if at > self.now:
            # The wall clock may have been set back between two entries, but a workflow's time never moves back.
            self.now = at
        return self.interpreter.advance(self, wait.fiber, outcome)

    def replay(self, entries: Iterable[HistoryEntry], *, is_new_fork: bool = False) -> SessionResult:
        """Start the body and feed it all recorded entries. Afterwards `waits` holds all its open waits.

        A replay repeats recorded steps (`is_live` is False). A new fork is live from its last copied entry on.
        """
        self.past = Past(entries)
        self.has_spawned = self.past.mends > 0
        last_copied = self.past.forks[-1][0] if is_new_fork else None
        self.is_live = last_copied == 0
        result = self.start()
        for entry in self.past.entries:
            self.is_live = self.is_live or entry.seq == last_copied
            result = self.feed(entry)
        self.is_live = True
        # Do not keep the history in memory for as long as the body lives.
        self.past.forget()
        return result

    def close(self) -> None:
        """Close the body for good. Its `finally` blocks run, but operations in them do not."""
        self.is_closed = True
        self.interpreter.abandon(self)

    # --- entries that the body waits for --------------------------------------------------------------------------

    def _feed_retry(self, entry: HistoryEntry, wait: WaitCondition) -> SessionResult:
        """Note a failed attempt. Another one follows, so the body still waits."""
        wait.attempt += 1
        wait.retry_at = entry.retry_at_us
        wait.error = entry.outcome
        self.waits.timed[entry.position] = wait
        KINDS[wait.kind].prepare_again(wait.op, wait, self)
        return Suspended()

    def _outcome(self, entry: HistoryEntry, wait: WaitCondition) -> Outcome:
        """The outcome that an entry holds for the body. Raises `CodecError`."""
        row, status = KINDS[wait.kind], entry.status
        if status is row.leaves_child:
            self.has_spawned = True
        if status is _ERROR:
            return Raised(unpack_error(entry.outcome))
        if row.coder is not None:
            return Returned(row.coder(wait.op, self.codec).unpack(entry.outcome))
        return Returned(row.read(wait.op, entry, self.codec))

    # --- entries without a matching wait --------------------------------------------------------------------------

    def _feed_aside(self, entry: HistoryEntry, wait: WaitCondition | None) -> SessionResult:
        """Handle an entry that does not match the wait at its position. Raises `HistoryDiverged` if nothing fits it."""
        match entry.kind:
            case EntryKind.CANCEL:
                reason = self.codec.coder(str | None, "reason of a cancellation").unpack(entry.outcome)
                self.now = max(self.now, entry.at_us)
                return self.interpreter.cancel(self, reason)
            case EntryKind.REFUSAL if isinstance(self.interpreter.end, Completed):
                # The value that the body returned could not be stored.
                error = unpack_error(entry.outcome)
                self.now = max(self.now, entry.at_us)
                return self.interpreter.fail_instead(self, error)
            case EntryKind.RETRIED | EntryKind.FORKED:
                return self._resume_after(entry)
            case _:
                return self._pass_over(entry, wait)

    def _pass_over(self, entry: HistoryEntry, wait: WaitCondition | None) -> SessionResult:
        """Pass over an entry of a step or group that the code has `removed`. The last such entry ends the wait."""
        position = Position(entry.position)
        while wait is None and (position := position.parent):
            wait = self.waits.get(position)
        is_itself = position == entry.position
        if wait is None or wait.kind is not EntryKind.REMOVED or (is_itself and wait.name != entry.name):
            raise self._diverged(entry)
        self.trimmed |= note(wait, entry)
        if entry.seq != self.past.last_at(position):
            return Suspended()
        self.waits.drop(wait)
        self.now = max(self.now, entry.at_us)
        return self.interpreter.advance(self, wait.fiber, Returned(None))

    def _resume_after(self, entry: HistoryEntry) -> SessionResult:
        """Resume a failed workflow, or start a copy of one: move deadlines by the time that it stood still.

        Some waits count as new, and their time starts now: the step that is retried, and in a copy all waits that its
        last step had opened.
        """
        now, self.now = self.now, max(self.now, entry.at_us)
        is_copy = entry.kind is EntryKind.FORKED
        stood_still = self.now - now if is_copy else Retried.of(entry).lain
        for wait in self.waits.values():
            is_begun = wait.opened_at == now if is_copy else wait.position == entry.position
            if wait.deadline is not None and not KINDS[wait.kind].keeps_deadline(wait.op, is_begun):
                more = self.now - wait.opened_at if is_begun else stood_still
                wait.deadline = min(LATEST, wait.deadline + more)
            if is_begun:
                wait.opened_at = self.now
        self.waits.deadlines_moved()
        # Repaired code may already have ended at this point.
        return self.interpreter.end or Suspended()

    def _diverged(self, entry: HistoryEntry) -> HistoryDiverged:
        if (wait := self.waits.get(entry.position)) is not None:
            asked = str(wait)
        elif self.interpreter.end is not None:
            asked = "nothing: the workflow has ended"
        else:
            open_waits = ", ".join(f"{wait} at {wait.position}" for wait in self.waits.values())
            asked = f"nothing here; it waits for {open_waits}"
        return HistoryDiverged(self.who.id, entry.position, f"{entry.kind.value} {entry.name}", asked)

    # --- queries --------------------------------------------------------------------------------------------------

    def wake_at(self, in_flight: Container[str] = ()) -> int | None:
        """The earliest open deadline: of a timer, of a pause, or of a retry that is not in flight yet."""
        return self.waits.wake_at(in_flight)

    def due(self, now: int) -> list[WaitCondition]:
        """The timers, pauses and retries that are due, the earliest first."""
        return self.waits.due(now)

    def source(self, position: str) -> str | None:
        """File and line of the body at an open wait; None if there is no wait at the position."""
        wait = self.waits.get(position)
        return None if wait is None else source_around(wait.fiber)

    def coder_of(self, op: Leaf[Any]) -> Coder | None:
        """The coder of an operation's result; None if the result does not come from outside. Raises `CodecError`."""
        coder = KINDS[op.kind].coder
        return None if coder is None else coder(op, self.codec)

    @property
    def owes(self) -> bool:
        """Whether the workflow itself owes an undo, outside of any saga."""
        undos = self.interpreter.undos
        return undos is not None and bool(undos.root.owed)

    def owed(self) -> list[Owed]:
        """All owed undos, in the order in which they would run."""
        undos = self.interpreter.undos
        return [] if undos is None else undos.owed()

    def undone(self) -> list[Owed]:
        """The steps whose undo is done or running, in the order in which the steps completed."""
        undos = self.interpreter.undos
        return [] if undos is None else undos.undone()

    @property
    def undone_failure(self) -> Failed | None:
        """The failure with which the workflow will end once its undos are done; None if it has not failed."""
        undos = self.interpreter.undos
        return undos.end if undos is not None and isinstance(undos.end, Failed) else None

    def failed_undos(self) -> list[FailedUndo]:
        """All undos that have failed for good, in the workflow and in its sagas."""
        undos = self.interpreter.undos
        return [] if undos is None else undos.failed
