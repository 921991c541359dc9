"""What the parts of a session, and the verbs of a body, see of the session itself.

One live body has one session. Its parts (`interpreter`, `undo`, the rows of `kinds`) and the verbs that a body calls
(`now`, `uuid`, `patched`, `publish`, ...) read it through the protocol here, so none of them has to know the class.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, cast

from durable.errors import OperationMisused
from durable.model.codec import Codec
from durable.runner.draws import Draws
from durable.runner.ops import STEPPING, Stepping
from durable.runner.past import Past
from durable.runner.waits import Waits


class Identity(NamedTuple):
    """Who a workflow is, for its session. A tuple: every body has one, and few ever ask."""

    id: str
    name: str
    version: int
    round: int
    created_at: int
    tags: tuple[str, ...] = ()


class Positions(Protocol):
    """Lists positions when it is called."""

    def __call__(self) -> Iterable[str]: ...


class Ambient(Protocol):
    """One session, as its parts and the verbs of its body see it."""

    # --- read only: the session sets these ---
    who: Identity
    codec: Codec
    # The recorded time of the last entry, and its number.
    now: int
    fed: int
    # What the history says in advance.
    past: Past
    # True while the body does something for the first time, False while it repeats what is recorded.
    is_live: bool
    # Whether the body is thrown away: it has not ended, and may come to its `finally` blocks again.
    is_closed: bool
    # The positions of the event waits that are stored. Only a race that is replayed asks.
    registered: Positions
    # False for runs that an older version began: positions there use numbers, also for branches that have names.
    names_branches: bool
    max_waits: int

    # --- what a step leaves behind, for the session and the engine ---
    waits: Waits
    # Why the workflow must fail, whatever its body says.
    overrun: Exception | None
    # Whether there may be a child that outlives its wait, and whether the body has reached a loop.
    has_spawned: bool
    has_loop: bool
    # The answers of `patched` that are not recorded yet.
    answers: tuple[tuple[str, bool], ...]
    # The value that was published last, and after which entry.
    published: tuple[int, str] | None
    draws: Draws | None


def stepping(verb: str) -> Stepping:
    """Whoever is stepping a body right now. Raises `OperationMisused` outside of a body."""
    interpreter = STEPPING.get()
    if interpreter is None:
        raise OperationMisused(f"{verb}() works only inside a workflow body")
    return interpreter


def ambient(verb: str) -> Ambient:
    """The session whose body is being stepped. Raises `OperationMisused` outside of a body."""
    return cast("Ambient", stepping(verb).session)
