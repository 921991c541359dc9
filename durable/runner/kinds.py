"""The kinds of waits, one row each: what the runner does for a wait of that kind.

To add a kind: write its operation in a file of its own and add a row here. Nothing else in the runner asks which kind
a wait is, except for the code that is about one kind alone (`loops`, `rivals`, a `removed` step).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from durable.model.codec import Codec, Coder
from durable.model.records import EntryKind, EntryStatus, HistoryEntry
from durable.runner.ambient import Ambient
from durable.runner.changes import Removed
from durable.runner.children import CancelChild, ChildResult, Spawn
from durable.runner.definitions import ActivityCall, WorkflowCall
from durable.runner.events import EventOp, EventSend
from durable.runner.fibers import WaitCondition
from durable.runner.loops import LoopState
from durable.runner.ops import Outcome
from durable.runner.pauses import PauseOp
from durable.runner.timers import fired_at, keeps_deadline, prepare_timer


def _nothing(*_: object) -> None:
    """For a kind that needs nothing here."""


def _moves(op: object, is_begun: bool) -> bool:
    return False


@attrs.frozen(kw_only=True)
class WaitKind:
    """What the runner does for one kind of wait. The first argument is always the operation that waits."""

    # Before the wait is open: fill in what the engine needs. Returns the outcome if there is nothing to wait for.
    # Whatever it raises is raised in the body.
    prepare: Callable[[Any, WaitCondition, Ambient], Outcome | None] = _nothing
    # Before another attempt, because one has failed.
    prepare_again: Callable[[Any, WaitCondition, Ambient], Outcome | None] = _nothing
    # The coder of a result that comes from outside: an operator may replace it, and nobody else knows its type.
    coder: Callable[[Any, Codec], Coder] | None = None
    # The result that an entry holds, for a kind without a coder.
    read: Callable[[Any, HistoryEntry, Codec], Any] = _nothing
    # The status of an entry that ends the wait and leaves a child behind.
    leaves_child: EntryStatus | None = None
    # Whether the deadline stays where it is although the workflow stood still until an operator had it go on. The
    # second argument: whether the wait begins only now.
    keeps_deadline: Callable[[Any, bool], bool] = _moves


KINDS: dict[EntryKind, WaitKind] = {
    EntryKind.ACTIVITY: WaitKind(
        prepare=ActivityCall.prepare, prepare_again=ActivityCall.prepare, coder=ActivityCall.coder
    ),
    EntryKind.TIMER: WaitKind(prepare=prepare_timer, read=fired_at, keeps_deadline=keeps_deadline),
    EntryKind.EVENT: WaitKind(coder=EventOp.coder),
    EntryKind.PAUSE: WaitKind(prepare=PauseOp.prepare, coder=PauseOp.coder),
    # An operator may retry a child that has failed, though nobody waits for it any more.
    EntryKind.CHILD: WaitKind(prepare=WorkflowCall.prepare, coder=WorkflowCall.coder, leaves_child=EntryStatus.ERROR),
    EntryKind.SPAWN: WaitKind(prepare=Spawn.prepare, read=Spawn.read, leaves_child=EntryStatus.OK),
    EntryKind.RESULT: WaitKind(coder=ChildResult.coder),
    EntryKind.CANCEL_CHILD: WaitKind(read=CancelChild.read),
    EntryKind.SEND: WaitKind(prepare=EventSend.prepare),
    EntryKind.LOOP: WaitKind(prepare=LoopState.prepare, read=LoopState.read),
    EntryKind.REMOVED: WaitKind(prepare=Removed.prepare),
}
