"""Running old workflows on new code: `patched` chooses between old and new code, `removed` replaces a deleted step.

Both look ahead in the history (`Past`), and neither makes a body wait for a new entry. An answer of `patched` is
recorded together with the body's next step; `removed` records nothing.
"""

from __future__ import annotations

from durable.model.ids import check_text
from durable.model.records import EntryKind
from durable.runner.ambient import Ambient, ambient, stepping
from durable.runner.fibers import WaitCondition
from durable.runner.ops import Leaf, Op, Outcome, Returned
from durable.runner.past import NOTHING, Past


class Removed(Leaf[None]):
    """A step that the code no longer has.

    Where the history has entries for it, the session passes over them. Where it has none, the step ends at once.
    """

    kind = EntryKind.REMOVED

    def __init__(self, name: str) -> None:
        self.name = check_text("removed: name", name)

    def prepare(self, wait: WaitCondition, session: Ambient) -> Outcome | None:
        """Open a wait only if the history has entries to pass over."""
        # A child that was called here may still run, and the code no longer mentions it. This makes the engine look in
        # the store for children when the parent ends.
        session.has_spawned = True
        return Returned(None) if session.past.last_at(wait.position) is None else None

    def __str__(self) -> str:
        return f"removed {self.name}"


def removed(name: str) -> Op[None]:
    """Keep the place of a deleted step: an activity, event, child or timer of this name, or a whole `gather` or `race`.

    Old runs skip the entries they have recorded for it; new runs continue at once. Later steps keep their positions.
    """
    return Removed(name)


def patched(change_id: str) -> bool:
    """Whether this run takes the new code: True unless it was already past this point when the code changed.

    The first answer is recorded. Every later call with the same id in this run returns it.
    """
    session = ambient("patched")
    answer = session.past.patches.get(check_text("patched: change id", change_id))
    if answer is None:
        answer = session.is_live
        # The `finally` of a body that is being closed is not progress: record nothing.
        if not stepping("patched").closing:
            record_answer(session, change_id, answer)
    return answer


def record_answer(session: Ambient, change_id: str, answer: bool) -> None:
    """Fix the answer for this run, and hand it to the engine, which stores it with the next step."""
    if session.past is NOTHING:
        # Bodies without a history share `NOTHING`, which must never change; this one needs its own now.
        session.past = Past()
    session.past.patches[change_id] = answer
    session.answers += ((change_id, answer),)
