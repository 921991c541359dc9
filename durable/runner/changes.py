"""Living with new code: `patched` asks which code a run is on, `removed` stands where a step was.

Both are looked up in the history and write nothing that a body has to wait for.
"""

from __future__ import annotations

from durable.ids import check_text
from durable.records import EntryKind
from durable.runner.determinism import ambient
from durable.runner.ops import Leaf, Op


class Removed(Leaf[None]):
    """A step that the code no longer has. What is recorded of it is passed over; without a record it takes no time."""

    kind = EntryKind.REMOVED

    def __init__(self, name: str) -> None:
        self.name = check_text("removed: name", name)

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
    return ambient("patched").patched(check_text("patched: change id", change_id))
