"""How the parts of a session, and the functions that a body calls, see the session.

One live body has one session. Its parts (`interpreter`, `undo`, the rows of `kinds`) and functions such as `now`,
`uuid`, `patched` and `publish` use the protocol `Ambient`, so none of them imports the class. The functions find the
session in a context variable that is set only while the body runs; outside of a body they raise `OperationMisused`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, cast

from durable.errors import OperationMisused
from durable.model.codec import Codec
from durable.runner.draws import Draws
from durable.runner.fibers import Waits
from durable.runner.ops import STEPPING, Stepping
from durable.runner.past import Past


class Identity(NamedTuple):
    """Which workflow a session runs. A tuple is the cheapest form: every body has one, and few read it.

    `round` counts the `continue_as` of this id; `created_at` is in microseconds since the epoch.
    """

    id: str
    name: str
    version: int
    round: int
    created_at: int
    tags: tuple[str, ...] = ()


class Positions(Protocol):
    """A function that lists positions; it is called only when they are needed."""

    def __call__(self) -> Iterable[str]: ...


class Ambient(Protocol):
    """One session, as its parts and the verbs of its body see it."""

    # --- read only: the session sets these ---
    who: Identity
    codec: Codec
    # The recorded time of the last entry, and its number.
    now: int
    fed: int
    # What was read ahead from the history.
    past: Past
    # True while the body does something for the first time, False while it repeats what is recorded.
    is_live: bool
    # True once the body is closed: it has not ended, and its `finally` blocks may run again in a later life.
    is_closed: bool
    # The positions of the stored event waits. Only the replay of a race needs them.
    registered: Positions
    # False for runs begun by an older version: their positions use numbers even for named branches.
    names_branches: bool
    max_waits: int

    # --- results of a step, read by the session and the engine ---
    waits: Waits
    # Why the workflow must fail, whatever its body does next.
    overrun: Exception | None
    # Whether a child may outlive its wait, and whether the body has reached a loop.
    has_spawned: bool
    has_loop: bool
    # The answers of `patched` that are not recorded yet.
    answers: tuple[tuple[str, bool], ...]
    # The last published value, as JSON, and the number of the entry before it.
    published: tuple[int, str] | None
    draws: Draws | None


def stepping(verb: str) -> Stepping:
    """The interpreter that is stepping a body in this thread. Raises `OperationMisused` outside of a body."""
    interpreter = STEPPING.get()
    if interpreter is None:
        raise OperationMisused(f"{verb}() works only inside a workflow body")
    return interpreter


def ambient(verb: str) -> Ambient:
    """The session of the body that calls `verb`. Raises `OperationMisused` outside of a body."""
    return cast("Ambient", stepping(verb).session)
