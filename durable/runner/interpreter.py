"""Drives a body: steps its fibers, opens and withdraws waits, starts and joins branches, closes losers.

The session decides which entry resolves which wait, and calls `advance` with the fiber and its outcome. `_step` resumes
a fiber until it yields an operation that must wait, or ends. `_take` turns the operation into a wait or into branches.
`_finish` handles the end of a fiber: of the body, of a branch, or of an undo.

An operation announces itself to the interpreter before it yields itself. A yielded object that was not announced is not
an operation, or was yielded without `from`. The interpreter answers by sending itself, so an operation that receives
anything else knows that the body iterates it by hand.

`session.waits` collects the waits that a step opens and withdraws. A `Suspended` takes them out; after an end they stay
there for the engine. An overrun (`session.overrun`) stops the queue, and the engine fails the workflow.

A loop over ready fibers drives the body, never recursion, so 100,000 steps that resolve at once do not grow the stack.
The preparation of a wait before it opens is in `kinds`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from durable.errors import Cancelled, OperationMisused
from durable.runner.ambient import Ambient
from durable.runner.definitions import ContinueRequested
from durable.runner.fibers import Fiber, Group, WaitCondition, close_body, ending, groups_around, source_line
from durable.runner.kinds import KINDS
from durable.runner.limits import depth_around, depth_of, is_beyond, note_recursion
from durable.runner.loops import Break, Loop, Rounds, rounds_of
from durable.runner.misuse import UNRUN, Mistaken, not_taken, raised, unrun
from durable.runner.ops import STEPPING, Branches, Leaf, Op, Outcome, Raised, Returned, Undo
from durable.runner.results import Completed, ContinueAs, End, SessionResult, Suspended, end_of
from durable.runner.rivals import rivals_of
from durable.runner.undo import UNDO, Undos, shield_of

_log = logging.getLogger("durable")
# The session of an interpreter that does not run.
_NO_SESSION: Any = None
# Creates an object without calling `__init__`. Only for objects that every step creates.
_new = object.__new__


class Interpreter:
    """The fibers of one body, the queue of those that can run, the undos that it owes, and its end."""

    __slots__ = (
        "announced", "answer", "cancel_reason", "closing", "dropped", "end", "is_cancelled", "mistake", "ready", "root",
        "session", "stepped", "undos",
    )  # fmt: skip

    def __init__(self) -> None:
        # Set only while the body runs. A permanent reference would be a cycle with the session, and only the garbage
        # collector could free the two.
        self.session: Ambient = _NO_SESSION
        self.root: Fiber | None = None
        self.stepped: Fiber | None = None  # the fiber that runs, or ran last
        # Fibers that can run. None instead of an empty queue: fewer objects for the garbage collector.
        self.ready: deque[tuple[Fiber, Outcome]] | None = None
        self.end: End | None = None
        self.is_cancelled = False
        self.cancel_reason: str | None = None
        self.undos: Undos | None = None  # made when the first undo is owed
        # `announced`, `answer`, `dropped` and `closing` are shared with the operation that runs: see `Stepping`.
        self.announced: Op[Any] | None = None
        self.answer: Any = None
        self.dropped: list[str] | None = None
        # The last mistake that was thrown into the body. Even if the body catches it, the workflow fails.
        self.mistake: Mistaken | None = None
        self.closing = 0

    # --- called by the session ------------------------------------------------------------------------------------

    def start(self, session: Ambient, body: Any) -> SessionResult:
        """Run a body to its first wait."""
        self.root = Fiber(body, "", None, 0)
        return self.advance(session, self.root, Returned(None))

    def advance(self, session: Ambient, fiber: Fiber | None = None, outcome: Outcome | None = None) -> SessionResult:
        """Run a fiber, and every fiber that becomes ready, until all of them wait or the body has ended."""
        self.session = session
        # The same as `_running`, written out: every step passes here, and the context manager costs too much.
        token = STEPPING.set(self)
        try:
            if fiber is not None:
                self._step(fiber, outcome)
            while self.ready and session.overrun is None:
                fiber, outcome = self.ready.popleft()
                if fiber.is_live:
                    self._step(fiber, outcome)
        finally:
            STEPPING.reset(token)
            self.session = _NO_SESSION
        if self.end is not None:
            return self.end
        waits = session.waits
        result = _new(Suspended)
        result.opened, result.withdrawn = waits.opened or (), waits.withdrawn or ()
        waits.opened = waits.withdrawn = None
        return result

    def cancel(self, session: Ambient, reason: str | None) -> SessionResult:
        """Raise `Cancelled` at every open wait. A group ends when all its branches have cleaned up.

        An undo that is running is not interrupted; the code after it is cancelled. If the body caught an earlier
        cancellation and waits again, it gets `Cancelled` again.
        """
        self.is_cancelled, self.cancel_reason = True, reason
        if isinstance(self.end, (Completed, ContinueAs)):
            # Only on a replay with changed code: the recorded cancellation arrives after the new code has ended.
            return self.fail_instead(session, self.cancelled())
        for wait in list(session.waits.values()):
            shield = shield_of(wait.fiber)
            if shield is None:
                session.waits.withdraw(wait)
                self.resume(wait.fiber, Raised(self.cancelled()))
            for group in groups_around(shield or wait.fiber):
                group.is_cancelling = True
        return self.advance(session)

    def fail_instead(self, session: Ambient, error: BaseException) -> SessionResult:
        """Turn the successful end of a body into a failure, and run the undos that it owes."""
        assert self.root is not None, "the body has ended"
        self.end = None
        with _running(self, session):
            self._finish(self.root, Raised(error))
        return self.advance(session)

    def abandon(self, session: Ambient) -> None:
        """Close the body for good. Its `finally` blocks run, but operations in them do not, and neither do undos."""
        if self.root is None or self.end is not None:
            return
        undos, self.undos = self.undos, None
        with _running(self, session):
            for fiber in (self.root, *(() if undos is None else undos.running)):
                self._close(fiber)

    # --- called by operations and undos ---------------------------------------------------------------------------

    def owe(self, op: Undo[Any], value: Any) -> None:
        """Note the undo of a step that has succeeded in the fiber that runs."""
        assert self.stepped is not None, "a body runs"
        if self.undos is None:
            self.undos = Undos()
        self.undos.owe(self.stepped, op, value)

    def resume(self, fiber: Fiber, outcome: Outcome) -> None:
        """Queue a fiber: it runs after those already in the queue."""
        if self.ready is None:
            self.ready = deque()
        self.ready.append((fiber, outcome))

    def misuse(self) -> Mistaken | None:
        """The error for operations that the body dropped in this step, if it dropped any. Clears the list."""
        dropped, self.dropped = self.dropped, None
        return Mistaken(OperationMisused("; ".join(dropped))) if dropped else None

    def cancelled(self) -> Cancelled:
        """A new error of the cancellation: each wait needs its own, because a traceback is attached to it."""
        return Cancelled(self.cancel_reason)

    # --- one step -------------------------------------------------------------------------------------------------

    def _step(self, fiber: Fiber, outcome: Outcome | None) -> None:
        """Resume a fiber, again and again while its operations resolve at once, until it waits or ends."""
        self.stepped = fiber
        while outcome is not None:
            try:
                if isinstance(outcome, Raised):
                    self.mistake = outcome if isinstance(outcome, Mistaken) else self.mistake
                    op = fiber.body.throw(outcome.thrown)
                elif fiber.started:
                    self.answer = outcome.value
                    op = fiber.body.send(self)
                else:
                    fiber.started = True
                    op = fiber.body.send(None)
            except StopIteration as stop:
                result = stop.value.value if isinstance(stop.value, Break) else stop.value
                mistake = self.misuse()
                if mistake is None and isinstance(result, UNRUN):
                    mistake = unrun(self.session.who.name, fiber, result)
                self._finish(fiber, mistake or Returned(stop.value))
                return
            except ContinueRequested as request:
                self._finish(fiber, self.misuse() or request)
                return
            except BaseException as error:
                if isinstance(error, RecursionError) and error is not getattr(outcome, "error", None):
                    note_recursion(self.session, f"{fiber.prefix}{fiber.count}", error)
                self._finish(fiber, raised(self.session.who.name, fiber, error, self.misuse()))
                return
            outcome = self.misuse() if self.dropped else self._take(fiber, op)

    def _take(self, fiber: Fiber, op: object) -> Outcome | None:
        """Handle what the fiber has yielded: the outcome if there is one at once, None if the fiber must wait."""
        session = self.session
        announced, self.announced = self.announced, None
        if op is not announced or announced is None:
            return Mistaken(OperationMisused(not_taken(session.who.name, op, source_line(fiber.body))))
        position = f"{fiber.prefix}{fiber.count}"
        fiber.count += 1
        try:
            # The common case, checked without a call: no helper stands between the fiber and its operation.
            inner = fiber.body.gi_yieldfrom
            is_flat = inner is None or inner.gi_yieldfrom is None
        except AttributeError:
            is_flat = False
        count = len(session.waits)
        if (not is_flat or count >= session.max_waits) and is_beyond(session, count + 1, depth_of(fiber)):
            return None
        if not isinstance(announced, Leaf):
            assert isinstance(announced, Branches), "a wrapper such as `undo` announces the operation inside it"
            return self._branch(fiber, announced, position)
        wait = WaitCondition(position, announced, fiber, session.now)
        try:
            if (immediate := KINDS[announced.kind].prepare(announced, wait, session)) is not None:
                return immediate
        except Exception as error:
            return Raised(error)
        session.waits.open(wait)
        return None

    def _branch(self, fiber: Fiber, op: Branches[Any], position: str) -> Outcome | None:
        """Start branches. Returns the outcome if there are none, else None: the fiber waits for them."""
        try:
            group = _group_of(op, fiber, position, self.session)
        except Exception as error:
            return Raised(error)
        if is_beyond(self.session, 0, group.depth):
            return None
        if isinstance(group, Rounds):
            # Calling the function of a loop may already draw names; those draws belong to the round.
            self.stepped = Fiber(None, "", group, 0)
        self._open(group, op.limit)
        fiber.group = group if group.fibers else None
        return None if group.fibers else group.tally.empty()

    def _open(self, group: Group, limit: int | None) -> None:
        """Start up to `limit` more branches. Making one may run code of the body, which may misuse an operation."""
        session = self.session
        for fiber in group.open(limit):
            self.resume(fiber, (self.misuse() if self.dropped else None) or Returned(None))
            # The depth was checked before the first of them.
            count = len(session.waits) + len(self.ready or ())
            if count > session.max_waits and is_beyond(session, count, group.depth):
                break

    # --- endings --------------------------------------------------------------------------------------------------

    def _finish(self, fiber: Fiber, outcome: Outcome | ContinueRequested) -> None:
        """Handle the end of a fiber: of the body, of an undo, or of a branch."""
        fiber.is_live = False
        group = fiber.owner
        if fiber.index == UNDO:
            assert self.undos is not None, "an undo was owed"
            self.undos.finish(self, fiber, outcome)
        elif group is not None:
            self._finish_branch(fiber, group, outcome)
        elif self.undos is not None:
            self.undos.end_with(self, end_of(outcome, self.mistake))
        else:
            self.end = end_of(outcome, self.mistake)

    def _finish_branch(self, fiber: Fiber, group: Group, outcome: Outcome | ContinueRequested) -> None:
        """Conclude the group if this end decides it. A cancelled group ends with its last branch; no tally is asked."""
        if isinstance(outcome, ContinueRequested):
            outcome = Raised(OperationMisused("continue_as inside a branch: only the workflow itself can continue"))
        del group.fibers[fiber.index]
        verdict: Outcome | None = None if group.fibers else Raised(self.cancelled())
        if not group.is_cancelling:
            verdict = outcome if isinstance(outcome, Mistaken) else group.tally.finished(fiber.index, outcome)
            if verdict is None and group.unopened is not None:
                self._open(group, 1)
        if verdict is None:
            return
        for loser in group.fibers.values():
            self._close(loser)
        if self.undos is not None:
            self.undos.conclude(self, group, verdict)
        else:
            group.fiber.group = None
            self.resume(group.fiber, verdict)

    def _close(self, fiber: Fiber) -> None:
        """End a fiber and all fibers below it. Their `finally` blocks run, but operations in them do not."""
        for ended in ending(fiber, self.session.waits.withdraw):
            self.closing = 1
            if (error := close_body(ended.body)) is not None:
                _log_close_error(self.session, error)
            self.closing, self.dropped = 0, None
            if self.undos is not None and ended.group is not None:
                self.undos.closed(self, ended.group)


def _log_close_error(session: Ambient, error: BaseException) -> None:
    id, name = session.who[:2]
    extra = {"workflow_id": id, "workflow_name": name}
    _log.error("workflow %s (%s) could not be closed in order: %r", id, name, error, extra=extra)


def _group_of(op: Branches[Any], fiber: Fiber, position: str, session: Ambient) -> Group:
    """The group of an operation with branches. Raises the error of a loop that cannot begin."""
    if isinstance(op, Loop):
        group: Group = rounds_of(op, fiber, position, session)
    else:
        labels = op.labels() if session.names_branches else ()
        group = Group(op.tally(), op.each(), fiber, position, labels)
        group.rivals = rivals_of(op)
    group.depth = depth_around(fiber)
    return group


@contextmanager
def _running(interpreter: Interpreter, session: Ambient) -> Iterator[None]:
    """Set the context that code of the body needs while it runs."""
    interpreter.session = session
    token = STEPPING.set(interpreter)
    try:
        yield
    finally:
        STEPPING.reset(token)
        interpreter.session = _NO_SESSION
