"""Who may have taken the last process down: the steps in which bodies died, and the trials of activities.

Part of the coordinator's state. Knows nothing about workflows or parking: `decide.recovery` draws the conclusions.

**A body that kills the process** is easy to identify: the engine marks whose body it runs, at which position, and what
the body is fed there (`State.mark`). After a crash the next engine keeps these deaths in further cells of the mark
(`Deaths`), so that later runs can compare. A count of crashes alone is not enough: a body may die of one event and make
progress with everything else.

- A body that is fed the same thing at the same position and survives did not cause the crash, because bodies are pure.
  This clears only that death. Deaths in other steps still count: the crash may have had another cause while this body
  was being rebuilt.
- A body that gets past that position with a different answer proves little: the next run may bring the first answer
  again. Such a death is *passed*. It is dropped only if the body then dies of something else.

**Activities** are harder, because many run at once. So after an unclean stop every workflow with open activities is a
*suspect*. When an activity of a suspect begins, the suspect is *on trial* for a short time (`WINDOW`).

If the process dies during a trial, the workflows on trial are the *accused* of the next start. That start admits the
first half of the accused, then the other half, then all other suspects, one window apart (`Trials`). The culprit is in
the group that is on trial when the process dies, so one culprit among n is isolated after about log2(n) crashes. A
suspect that survives its trial is *acquitted*.

A kill from outside after the trials accuses no workflow, and no suspect waits longer than two windows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple
from zlib import crc32

import attrs

from durable.backends.base import MARK_CELLS, Batch, Mark
from durable.model.clock import LATEST, SECOND

# The cells for the body that runs now: a checksum of its position, and one of the text that it is fed there.
WHERE, WHAT = 2, 3
# In place of a checksum: the body's first step, the replay of its history, its `finally` blocks when it is closed.
BEGINS, REBUILT, CLOSED = -1, -2, -3
# Deaths start at cell `_FIRST` and take `_SIZE` cells each.
_FIRST, _SIZE = 4, 4
_ROOM = (MARK_CELLS - _FIRST) // _SIZE
# How many deaths of one body are kept, so that one body cannot fill all cells.
_STEPS_MAX = 8
# How long an activity is a suspect for the death of the process once it has begun. Short enough that the last of three
# groups runs within a second of the start.
WINDOW = 3 * SECOND // 10
# How long to wait for a group whose activities do not begin, because they wait for a thread.
PATIENCE = 3 * WINDOW


# --- bodies -----------------------------------------------------------------------------------------------------------


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


# --- activities -------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Trials:
    """The suspects of this start."""

    # The open batch; the state replaces it after each commit.
    batch: Batch = attrs.field(factory=Batch)
    is_on: bool = False
    # Whether a new workflow is stored before its body runs. Set after the process died in the body of a workflow that
    # was not stored, so no workflow could be blamed. If that happens again, the workflow is known.
    stores_first: bool = False
    # The last key that was assigned before this start: a later workflow did not cause the crash.
    last_key: int = 0
    # The workflows that were on trial when the last process died, with their crashes, and the half admitted first.
    accused: Mapping[int, int] = attrs.field(factory=dict)
    first: frozenset[int] = frozenset()
    # Suspects without a running activity, with the crashes that will count against each, and the groups in which they
    # are admitted: the other half of the accused, then all other suspects.
    waiting: dict[int, int] = attrs.field(factory=dict)
    groups: deque[list[int]] = attrs.Factory(lambda: deque([[], []]))
    # Members of the last admitted group whose bodies are not rebuilt yet. Their activities cannot have begun.
    coming: set[int] = attrs.field(factory=set)
    # The batch in which the last of them was rebuilt: their activities begin when it is committed.
    arrived: Batch | None = None
    # When the next group is admitted, and the latest instant for that. Not set until recovery has seen all workflows.
    admit_at: int = LATEST
    _admit_by: int = LATEST
    # Suspects that run, with the end of their trial; LATEST until one of their activities has begun.
    on_trial: dict[int, int] = attrs.field(factory=dict)
    _ending: deque[tuple[int, int]] = attrs.field(factory=deque)

    # Whether recovery is still going through the stored workflows.
    is_looking: bool = True

    def hold(self, key: int) -> bool:
        """Whether a suspect must wait for its group. Otherwise the caller loads it now."""
        self.waiting[key] = self.accused.get(key, 1) if len(self.accused) == 1 else 1
        if key in self.first or not self.accused:
            return False
        self.groups[0 if key in self.accused else 1].append(key)
        return True

    def admit(self, key: int) -> None:
        """An activity of a suspect is handed out: if the process dies now, this counts against it."""
        self.on_trial[key] = LATEST
        self.batch.suspects_put[key] = self.waiting.pop(key)
        self.batch.suspects_dropped.discard(key)

    def begin(self, key: int, now: int) -> None:
        """An activity of a suspect has begun."""
        if key in self.on_trial:
            self.on_trial[key] = now + WINDOW
            self._ending.append((now + WINDOW, key))
            # Otherwise the next group would be on trial together with this one, and a crash could not tell them apart.
            if self.admit_at != LATEST:
                self.admit_at = min(max(self.admit_at, now + WINDOW), self._admit_by)

    def acquit(self, key: int) -> None:
        """A suspect is cleared: it has survived its trial, or there is no reason left to suspect it."""
        self.on_trial.pop(key, None)
        self.batch.suspects_put.pop(key, None)
        self.batch.suspects_dropped.add(key)

    def admit_group(self) -> list[int]:
        """Take the next group of suspects. The one after it waits until their trials are over."""
        group = [key for key in self.groups.popleft() if key in self.waiting]
        if group:
            self.admit_at, self.coming = LATEST, set(group)
        return group

    def rebuilt(self, key: int) -> None:
        """The body of a suspect is rebuilt in this batch."""
        if key in self.coming:
            self.coming.remove(key)
            self.arrived = None if self.coming else self.batch

    def looked_over(self) -> None:
        """Recovery has seen all workflows, and has rebuilt the first group."""
        self.is_looking, self.arrived = False, self.batch

    def set_time(self, now: int) -> None:
        """Set the time of the next group, once the batch that rebuilt the last member of this group is committed."""
        if self.arrived is not None and self.arrived is not self.batch:
            self.arrived = None
            self.admit_at, self._admit_by = now + WINDOW, now + PATIENCE

    def end(self, now: int) -> None:
        """Acquit those whose trial is over."""
        while self._ending and is_over(self._ending[0][0], now):
            until, key = self._ending.popleft()
            # A later activity of the same workflow may have begun since.
            if self.on_trial.get(key) == until:
                self.acquit(key)

    def next(self) -> int | None:
        """When `hold_trials` must run next, to acquit a suspect or to admit a group; None if there is nothing to do."""
        ending = self._ending[0][0] if self._ending else None
        if not self.is_on:
            return ending
        if self.arrived is not None:
            # At once: the next batch shows how long the batch that rebuilt them took.
            return 0
        if self.admit_at == LATEST:
            return ending
        return self.admit_at if ending is None else min(ending, self.admit_at)


def is_over(until: int, now: int) -> bool:
    """Whether an instant at most one window ahead has passed. A clock that was set back does not prolong a trial."""
    return not until - WINDOW <= now < until
