"""In which step a body died: what it was told, and where.

The engine writes both into the mark before it runs a body (`State.mark`). After a crash the next engine keeps them
here, in further cells of the mark, so that later lives can compare. A count of crashes alone would not do: a body may
die of one event and make progress with everything else.

- A body that is told the same thing in the same place, and lives, did not cause the crash. Bodies are pure.
  That says nothing about deaths in other steps: somebody else may have killed the process while this one was rebuilt.
- One that comes past that place with another answer has shown little: the next life may bring the first answer again.
  Only if it then dies of something else does the death in that place count no more.

Part of the coordinator's state. Must not know what a workflow is, nor who is parked.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

from durable.backends.base import MARK_CELLS, Mark

# The cells that say where the body is that runs now, and what it is told there: checksums of the position and the text.
WHERE, WHAT = 2, 3
# Places that are no positions: its first step, the replay of its history, its `finally` blocks when it is closed.
BEGINS, REBUILT, CLOSED = -1, -2, -3
# The cells of those that died: from here on, so many for each.
_FIRST, _SIZE = 4, 4
_ROOM = (MARK_CELLS - _FIRST) // _SIZE
# Of how many steps of one body: who dies in more places than that leaves room for others.
_STEPS_MAX = 8


def mark_step(mark: Mark, key: int, where: int, told: str = "") -> None:
    """Note whose body runs next, in which place, and what it is told there."""
    mark[0], mark[WHERE], mark[WHAT] = key, where, crc32(told.encode())


def mark_reading(mark: Mark, key: int, position: str, text: str) -> None:
    """Note whose type reads next what a wait may be fed: types are code too, and may kill the process."""
    mark_step(mark, key, crc32(position.encode()), text)


class Death(NamedTuple):
    """A step in which a body died, and how often it did."""

    where: int
    what: int
    # Whether it has come past that place since, with another answer.
    is_passed: bool = False
    times: int = 1


class Deaths:
    """The steps in which bodies died that may be what kills the process. They are forgotten one by one."""

    def __init__(self) -> None:
        self._mark: Mark = [0] * MARK_CELLS
        # By workflow, the step of the last death at the end.
        self.steps: dict[int, list[Death]] = {}
        # Those that the engine that runs now has no code for: nothing that this engine does speaks for them.
        self.codeless: set[int] = set()

    def read(self, mark: Mark) -> None:
        """Take over what the engines before this one have noted."""
        self._mark = mark
        for at in range(_FIRST, _FIRST + _ROOM * _SIZE, _SIZE):
            key, where, what, rest = (mark[cell] for cell in range(at, at + _SIZE))
            if key > 0:
                self.steps.setdefault(key, []).append(Death(where, what, bool(rest & 1), max(1, rest >> 2)))
                if rest & 2:
                    self.codeless.add(key)

    def write(self) -> None:
        """Note it for the engines to come. Of very many the first are forgotten."""
        cells: list[int] = []
        for key, death in [(key, death) for key, steps in self.steps.items() for death in steps][-_ROOM:]:
            cells += (key, death.where, death.what, death.is_passed + 2 * (key in self.codeless) + 4 * death.times)
        cells += [0] * (_ROOM * _SIZE - len(cells))
        for at, cell in enumerate(cells, _FIRST):
            self._mark[at] = cell

    def note(self, key: int, where: int, what: int, counted: int) -> int:
        """A body died that has died `counted` times; how often that is now, in a row. Not written yet."""
        # Whoever is not counted has a clean slate.
        before = self.steps.pop(key, []) if counted else []
        before = [death for death in before if not death.is_passed or death.what == what]
        times = 1 + sum(death.times for death in before if (death.where, death.what) == (where, what))
        steps = [death for death in before if (death.where, death.what) != (where, what)]
        self.steps[key] = [*steps, Death(where, what, times=times)][-_STEPS_MAX:]
        return min(counted, sum(death.times for death in before)) + 1

    def survive(self, key: int, where: int, what: int) -> int:
        """A body came out of a step; how many of its deaths are left that this does not explain."""
        steps = self.steps.get(key, [])
        if any(death.where == where for death in steps):
            steps = [
                death._replace(is_passed=death.is_passed or death.where == where)
                for death in steps
                if (death.where, death.what) != (where, what)
            ]
            self.steps[key] = steps
            if not steps:
                self.forget(key)
            self.write()
        return sum(death.times for death in steps)

    def forget(self, key: int) -> None:
        """None of its deaths count any more. Not written yet."""
        self.steps.pop(key, None)
        self.codeless.discard(key)
