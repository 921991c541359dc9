"""Living with new code: `patched` asks which code a run is on, `removed` stands where a step was.

Both are looked up in the history and write nothing that a body has to wait for.
"""

from __future__ import annotations

from durable.model.ids import check_text
from durable.model.records import EntryKind
from durable.runner.ambient import Ambient, ambient, stepping
from durable.runner.fibers import WaitCondition
from durable.runner.ops import Leaf, Op, Outcome, Returned
from durable.runner.past import NOTHING, Past


class Removed(Leaf[None]):
    """A step that the code no longer has. What is recorded of it is passed over; without a record it takes no time."""

    kind = EntryKind.REMOVED

    def __init__(self, name: str) -> None:
        self.name = check_text("removed: name", name)

    def prepare(self, wait: WaitCondition, session: Ambient) -> Outcome | None:
        """There is nothing to wait for where nothing is recorded."""
        # A child that was called here may still run. When its parent ends, only the store knows of it.
        session.has_spawned = True
        return Returned(None) if session.past.last_at(wait.position) is None else None

    def __str__(self) -> str:
        return f"removed {self.name}"


def removed(name: str) -> Op[None]:
    """Stand for a step that was here: an activity, event, child or timer of this name, or a whole `gather` or `race`.

    Old runs pass over what they have recorded of it, new ones go on at once. Positions of later steps stay as they are.
    """
    return Removed(name)


def patched(change_id: str) -> bool:
    """Whether this run takes the new code: True unless it was under way when the change came.

    The first answer is recorded and stands for this run, however often it is asked.
    """
    session = ambient("patched")
    answer = session.past.patches.get(check_text("patched: change id", change_id))
    if answer is None:
        answer = session.is_live
        # A body that is being closed has not got any further.
        if not stepping("patched").closing:
            record_answer(session, change_id, answer)
    return answer


def record_answer(session: Ambient, change_id: str, answer: bool) -> None:
    """Keep the answer for this run, and have it recorded."""
    if session.past is NOTHING:
        # Bodies without a history share one; from here on this body needs its own.
        session.past = Past()
    session.past.patches[change_id] = answer
    session.answers += ((change_id, answer),)
