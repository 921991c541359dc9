"""Children that a workflow starts without waiting for them: `spawn`, and the handle that it returns.

There are three operations: start the child (`Spawn`), wait for its end (`ChildResult`), and cancel it (`CancelChild`).
Each waits for one recorded entry and decodes it. The engine does the work behind them. A child that the parent waits
for at once is a plain call of a workflow: see `WorkflowCall` in `definitions`.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

from durable.errors import WrongType
from durable.model.codec import Codec, Coder
from durable.model.ids import check_reason, check_text
from durable.model.records import EntryKind, HistoryEntry, OnParentClose
from durable.runner.ambient import Ambient
from durable.runner.definitions import WorkflowCall, WorkflowDef
from durable.runner.fibers import WaitCondition
from durable.runner.ops import Leaf, Op, T_co

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class ChildHandle(Generic[R_co]):
    """A child that this workflow has spawned. It belongs to the running body: it cannot be stored or sent elsewhere."""

    __slots__ = ("_definition", "id")

    def __init__(self, id: str, definition: WorkflowDef[Any, R_co]) -> None:
        self.id = id
        self._definition = definition

    def result(self) -> Op[R_co]:
        """Wait for the child to end, and return its result. Raises `ChildWorkflowFailed`, `ChildWorkflowCancelled`.

        You may wait any number of times, even long after the child has ended. If the wait is given up (it loses a race
        or hits a limit), the child still runs.
        """
        return ChildResult(self.id, self._definition)

    def cancel(self, reason: str | None = None) -> Op[bool]:
        """Ask the child to clean up and end; False if it has ended already. Does not wait for the end."""
        return CancelChild(self.id, check_reason(reason))

    def __repr__(self) -> str:
        return f"<child {self.id!r}>"


class ChildOp(Leaf[T_co]):
    """An operation on a spawned child."""

    # The child's id; None if the engine is to derive one from the parent's id.
    child_id: str | None


class Spawn(ChildOp[ChildHandle[Any]]):
    """Start a child and continue; the entry holds the child's id."""

    kind = EntryKind.SPAWN

    def __init__(self, call: WorkflowCall[Any], child_id: str | None, on_parent_close: OnParentClose) -> None:
        self.definition = call.definition
        self.name = call.name
        self.args = call.args
        self.kwargs = call.kwargs
        self.child_id = child_id
        self.on_parent_close = on_parent_close

    def prepare(self, wait: WaitCondition, session: Ambient) -> None:
        """Pack the arguments of the child. Raises `TypeError`, `CodecError`."""
        wait.input = self.definition.pack_input(self.args, self.kwargs, session.codec)

    def read(self, entry: HistoryEntry, codec: Codec) -> ChildHandle[Any]:
        """The handle of the child. Raises `CodecError`."""
        return ChildHandle(codec.coder(str, "the id of a spawned child").unpack(entry.outcome), self.definition)

    def __str__(self) -> str:
        return f"spawn of {self.name}(...)"


class ChildResult(ChildOp[T_co]):
    """Wait for the end of a spawned child."""

    kind = EntryKind.RESULT

    def __init__(self, child_id: str, definition: WorkflowDef[Any, T_co]) -> None:
        # The id is also the name in the history, so code that waits for a different child diverges.
        self.name = self.child_id = child_id
        self._definition = definition

    def coder(self, codec: Codec) -> Coder:
        """The coder of the child's result. Raises `CodecError`."""
        return self._definition.coder(codec).result

    def __str__(self) -> str:
        return f"result of child {self.name!r}"


class CancelChild(ChildOp[bool]):
    """Ask a spawned child to end. The answer is recorded at once, before the child has ended."""

    kind = EntryKind.CANCEL_CHILD

    def __init__(self, child_id: str, reason: str | None) -> None:
        self.name = self.child_id = child_id
        self.reason = reason

    def read(self, entry: HistoryEntry, codec: Codec) -> Any:
        """Whether the child was still running. Raises `CodecError`."""
        return codec.coder(bool, "the answer to the cancellation of a child").unpack(entry.outcome)

    def __str__(self) -> str:
        return f"cancellation of child {self.name!r}"


def spawn(
    call: WorkflowCall[R], id: str | None = None, on_parent_close: OnParentClose = OnParentClose.KEEP
) -> Op[ChildHandle[R]]:
    """Start a child and continue. The start is committed with this step; the result is the child's handle.

    `on_parent_close` says what happens to the child when this workflow ends, in whatever way.
    """
    if isinstance(call, Op):
        # Marked before any check can raise: a refused operation is not a forgotten one.
        call._used = True
    if not isinstance(call, WorkflowCall):
        raise WrongType("spawn", f"takes a call of a @workflow function, not {call!r}")
    if not isinstance(on_parent_close, OnParentClose):
        raise WrongType("spawn", f"on_parent_close must be an OnParentClose, not {on_parent_close!r}")
    child_id = call.child_id if id is None else check_text("child workflow id", id)
    return cast("Op[ChildHandle[R]]", Spawn(call, child_id, on_parent_close))
