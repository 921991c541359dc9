"""One row per kind of wait: what the runner does for it. The engine has its half of each row in `WAIT_KINDS`.

To add a kind, write its operation in its own file and add a row here. No other code in the runner branches on the kind
of a wait, except for the code of a single kind (`loops`, `rivals`, the `removed` steps in `session`) and the count of
open activities (`Waits`).
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
    """The default for a field that a kind does not need."""


def _moves(op: object, is_begun: bool) -> bool:
    return False


@attrs.frozen(kw_only=True)
class WaitKind:
    """What the runner does for one kind of wait. The first argument is always the operation that waits."""

    # Called before the wait opens: fills in what the engine needs. Returns the outcome if there is nothing to wait for.
    # An error that it raises is raised in the body.
    prepare: Callable[[Any, WaitCondition, Ambient], Outcome | None] = _nothing
    # Called when an attempt has failed and another will follow.
    prepare_again: Callable[[Any, WaitCondition, Ambient], Outcome | None] = _nothing
    # The coder of a result that comes from outside. An operator may replace such a result, and needs its type.
    coder: Callable[[Any, Codec], Coder] | None = None
    # Reads the result from an entry, for a kind without a coder.
    read: Callable[[Any, HistoryEntry, Codec], Any] = _nothing
    # The status of an entry after which a child may still exist, although the wait is over.
    leaves_child: EntryStatus | None = None
    # Whether the deadline stays fixed when an operator resumes a workflow that stood still. By default it moves by that
    # time. The second argument is True if the wait counts as new at the resumption.
    keeps_deadline: Callable[[Any, bool], bool] = _moves


KINDS: dict[EntryKind, WaitKind] = {
    EntryKind.ACTIVITY: WaitKind(
        prepare=ActivityCall.prepare, prepare_again=ActivityCall.prepare, coder=ActivityCall.coder
    ),
    EntryKind.TIMER: WaitKind(prepare=prepare_timer, read=fired_at, keeps_deadline=keeps_deadline),
    EntryKind.EVENT: WaitKind(coder=EventOp.coder),
    EntryKind.PAUSE: WaitKind(prepare=PauseOp.prepare, coder=PauseOp.coder),
    # An operator may retry a failed child, although its parent no longer waits for it.
    EntryKind.CHILD: WaitKind(prepare=WorkflowCall.prepare, coder=WorkflowCall.coder, leaves_child=EntryStatus.ERROR),
    EntryKind.SPAWN: WaitKind(prepare=Spawn.prepare, read=Spawn.read, leaves_child=EntryStatus.OK),
    EntryKind.RESULT: WaitKind(coder=ChildResult.coder),
    EntryKind.CANCEL_CHILD: WaitKind(read=CancelChild.read),
    EntryKind.SEND: WaitKind(prepare=EventSend.prepare),
    EntryKind.LOOP: WaitKind(prepare=LoopState.prepare, read=LoopState.read),
    EntryKind.REMOVED: WaitKind(prepare=Removed.prepare),
}
