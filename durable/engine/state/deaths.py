"""The steps in which bodies died: the position of each, and what the body was fed there.

The engine writes both into the mark before it runs a body (`State.mark`). After a crash the next engine keeps them
here, in further cells of the mark, so that later runs can compare. A count of crashes alone is not enough: a body may
die of one event and make progress with everything else.

- A body that is fed the same thing at the same position and survives did not cause the crash, because bodies are pure.
  This clears only that death. Deaths in other steps still count: the crash may have had another cause while this body
  was being rebuilt.
- A body that gets past that position with a different answer proves little: the next run may bring the first answer
  again. Such a death is *passed*. It is dropped only if the body then dies of something else.

Part of the coordinator's state. Knows nothing about workflows or parking: `decide.recovery` draws the conclusions.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

from durable.backends.base import MARK_CELLS, Mark

# The cells for the body that runs now: a checksum of its position, and one of the text that it is fed there.
WHERE, WHAT = 2, 3
# In place of a checksum: the body's first step, the replay of its history, its `finally` blocks when it is closed.
BEGINS, REBUILT, CLOSED = -1, -2, -3
# Deaths start at cell `_FIRST` and take `_SIZE` cells each.
_FIRST, _SIZE = 4, 4
_ROOM = (MARK_CELLS - _FIRST) // _SIZE
# How many deaths of one body are kept, so that one body cannot fill all cells.
_STEPS_MAX = 8


def mark_step(mark: Mark, key: int, where: int, text: str = "") -> None:
    """Note whose body runs next, at which position, and what it is fed there."""
    mark[0], mark[WHERE], mark[WHAT] = key, where, crc32(text.encode())


def mark_reading(mark: Mark, key: int, position: str, text: str) -> None:
    """Note for which wait a payload is decoded next. Payload types are user code too, and may kill the process."""
    mark_step(mark, key, crc32(position.encode()), text)


class Death(NamedTuple):
    """A step in which a body died, and how often it did. `where` and `fed` are checksums, as in the mark."""

    where: int
    fed: int
    # Whether the body has since got past that position with a different answer.
    is_passed: bool = False
    times: int = 1


class Deaths:
    """The deaths that are not cleared yet, by workflow. Each is cleared on its own.

    The mark has room for a fixed number of them. It outlives the process but not the machine, and a change of it takes
    effect at once and not with a commit.
    """

    def __init__(self) -> None:
        self._mark: Mark = [0] * MARK_CELLS
        # By workflow; the latest death is last.
        self.steps: dict[int, list[Death]] = {}
        # Workflows whose code this engine does not have. It cannot run them, so its orderly stop does not clear them.
        self.codeless: set[int] = set()

    def read(self, mark: Mark) -> None:
        """Read the deaths that earlier engines wrote into the mark."""
        self._mark = mark
        for at in range(_FIRST, _FIRST + _ROOM * _SIZE, _SIZE):
            key, where, fed, flags = (mark[cell] for cell in range(at, at + _SIZE))
            if key > 0:
                # Bit 0: passed. Bit 1: codeless. Above them: how often.
                self.steps.setdefault(key, []).append(Death(where, fed, bool(flags & 1), max(1, flags >> 2)))
                if flags & 2:
                    self.codeless.add(key)

    def write(self) -> None:
        """Write all deaths into the mark for the next engine. If they do not fit, the first are dropped."""
        cells: list[int] = []
        for key, death in [(key, death) for key, steps in self.steps.items() for death in steps][-_ROOM:]:
            cells += (key, death.where, death.fed, death.is_passed + 2 * (key in self.codeless) + 4 * death.times)
        cells += [0] * (_ROOM * _SIZE - len(cells))
        for at, cell in enumerate(cells, _FIRST):
            self._mark[at] = cell

    def note(self, key: int, where: int, fed: int, counted: int) -> int:
        """Add a death; return how often the body has died in a row. `counted` is the count in its workflow's row.

        Not written to the mark: that happens when the new count is committed.
        """
        # A count of 0 in the row means that the workflow has been cleared since.
        before = self.steps.pop(key, []) if counted else []
        before = [death for death in before if not death.is_passed or death.fed == fed]
        times = 1 + sum(death.times for death in before if (death.where, death.fed) == (where, fed))
        steps = [death for death in before if (death.where, death.fed) != (where, fed)]
        self.steps[key] = [*steps, Death(where, fed, times=times)][-_STEPS_MAX:]
        return min(counted, sum(death.times for death in before)) + 1

    def survive(self, key: int, where: int, fed: int) -> int:
        """A body survived a step: clear its death there. Returns how many of its deaths remain."""
        steps = self.steps.get(key, [])
        if any(death.where == where for death in steps):
            steps = [
                death._replace(is_passed=death.is_passed or death.where == where)
                for death in steps
                if (death.where, death.fed) != (where, fed)
            ]
            self.steps[key] = steps
            if not steps:
                self.forget(key)
            self.write()
        return sum(death.times for death in steps)

    def forget(self, key: int) -> None:
        """Clear all deaths of a workflow. Not written to the mark."""
        self.steps.pop(key, None)
        self.codeless.discard(key)
