"""In which step a body died: what it was told, and where.

The engine writes both into the mark before it runs a body (`State.mark`). After a crash the next engine keeps them
here, in further cells of the mark, so that later lives can compare. A count of crashes alone would not do: a body may
die of one event and make progress with everything else.

- A body that is told the same thing in the same place, and lives, did not cause the crash. Bodies are pure.
- One that comes past that place with another answer has shown little: the next life may bring the first answer again.
  Only if it then dies of something else does the count start over.
- One that dies while its history is replayed has not reached that step again. The step stays suspect.

Part of the coordinator's state. Must not know what a workflow is, nor who is parked.
"""

from __future__ import annotations

from typing import NamedTuple

from durable.backends.base import MARK_CELLS, Mark

# The cells that say where the body is that runs now, and what it is told there: checksums of the position and the text.
WHERE, WHAT = 2, 3
# Places that are no positions: its first step, the replay of its history, its `finally` blocks when it is closed.
BEGINS, REBUILT, CLOSED = -1, -2, -3
# The cells of those that died: from here on, so many for each.
_FIRST, _SIZE = 4, 4
_ROOM = (MARK_CELLS - _FIRST) // _SIZE


class Death(NamedTuple):
    """The step in which a body died last, and whether it has come past that place since, with another answer."""

    where: int
    what: int
    is_passed: bool = False


class Deaths:
    """The last death of each body that may be what kills the process."""

    def __init__(self) -> None:
        self._mark: Mark = [0] * MARK_CELLS
        self.last: dict[int, Death] = {}

    def read(self, mark: Mark) -> None:
        """Take over what the engines before this one have noted."""
        self._mark = mark
        for at in range(_FIRST, _FIRST + _ROOM * _SIZE, _SIZE):
            if (key := mark[at]) > 0:
                self.last[key] = Death(mark[at + 1], mark[at + 2], bool(mark[at + 3]))

    def write(self) -> None:
        """Note it for the engines to come. Of very many the first are forgotten."""
        rows = [(key, *death) for key, death in self.last.items()][-_ROOM:]
        cells = [int(cell) for row in rows for cell in row]
        cells += [0] * (_ROOM * _SIZE - len(cells))
        for at, cell in enumerate(cells, _FIRST):
            self._mark[at] = cell

    def note(self, key: int, death: Death) -> bool:
        """A body died; whether that counts together with its deaths before. Not written yet."""
        last = self.last.pop(key, None)
        # A body that dies during its replay has not reached the step it died in before: that step stays suspect.
        is_on_the_way = death.where == REBUILT and last is not None and not last.is_passed
        self.last[key] = last if last is not None and is_on_the_way else death
        return last is not None and (not last.is_passed or last.what == death.what)

    def survive(self, key: int, where: int, what: int) -> bool:
        """A body came out of a step; whether that shows that it does no harm."""
        last = self.last.get(key)
        if last is None:
            return True
        if where != last.where:
            return False
        if what == last.what:
            del self.last[key]
        else:
            self.last[key] = last._replace(is_passed=True)
        self.write()
        return what == last.what
