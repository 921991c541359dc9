"""Who may have taken the last process down, and who of them runs already.

A body that dies in a step is known: the engine marks whose body it runs (`State.mark`). This is about activities, which
run in crowds. After an unclean stop every workflow that had some is on trial for a moment (`WINDOW`) from when they
begin. If the process dies again in that moment, those on trial are the accused of the next start, which admits them in
halves: the first half, then the other half, then everybody else, a window apart. Whichever group is on trial when the
process dies holds the culprit, so one among n is alone after about log2(n) crashes. Everybody else is acquitted.

A kill from outside that comes later than that accuses nobody, and nobody waits longer than two windows.

Part of the coordinator's state, and changed by `recovery` only. Must not know what a suspect does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import attrs

from durable.backends.base import Batch
from durable.model.clock import LATEST, SECOND

# How long after its beginning an activity answers for the death of the process. Short enough that the last of three
# groups runs again within a second of the start.
WINDOW = 3 * SECOND // 10
# How long a group is waited for whose activities do not begin, because they wait for a thread.
PATIENCE = 3 * WINDOW


@attrs.define(eq=False)
class Trials:
    """The suspects of this start."""

    # The open batch; the state replaces it after each commit.
    batch: Batch = attrs.field(factory=Batch)
    is_on: bool = False
    # Whether a new workflow is stored before its body runs. After the process died in a body that was not stored, so
    # that nobody could be blamed: if it dies of it again, it is.
    stores_first: bool = False
    # The last key that was given out before this start: what began later did not cause the stop before it.
    last_key: int = 0
    # Those who were on trial when the last process died, with their crashes, and the half that is admitted first.
    accused: Mapping[int, int] = attrs.field(factory=dict)
    first: frozenset[int] = frozenset()
    # Suspects without an activity that runs, with the crashes that will count against each; and the groups in which
    # they are admitted: the other half of the accused, then everybody else.
    waiting: dict[int, int] = attrs.field(factory=dict)
    groups: deque[list[int]] = attrs.Factory(lambda: deque([[], []]))
    # Those of the group that was admitted last whose bodies are not rebuilt yet. Their activities cannot have begun.
    coming: set[int] = attrs.field(factory=set)
    # The batch in which the last of them was rebuilt: their activities begin when it is committed.
    arrived: Batch | None = None
    # When the next group is admitted, and when it is at the latest; not before everybody has been looked over.
    admit_at: int = LATEST
    _admit_by: int = LATEST
    # Those that run, with the instant until which they are on trial; LATEST until an activity of theirs has begun.
    on_trial: dict[int, int] = attrs.field(factory=dict)
    _ending: deque[tuple[int, int]] = attrs.field(factory=deque)

    # Whether the recovery has not seen everybody yet.
    is_looking: bool = True

    def hold(self, key: int) -> bool:
        """Whether a suspect waits for its group. One that does not is admitted now."""
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
            # Otherwise the next group would be on trial together with this one, and neither could be told apart.
            if self.admit_at != LATEST:
                self.admit_at = min(max(self.admit_at, now + WINDOW), self._admit_by)

    def acquit(self, key: int) -> None:
        """A suspect has shown that it does no harm, or nobody suspects it any more."""
        self.on_trial.pop(key, None)
        self.batch.suspects_put.pop(key, None)
        self.batch.suspects_dropped.add(key)

    def admit_group(self) -> list[int]:
        """The suspects whose turn it is; the others wait until these have been tried."""
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
        """The recovery has seen everybody, and has rebuilt the first group."""
        self.is_looking, self.arrived = False, self.batch

    def set_time(self, now: int) -> None:
        """Set the time of the next group, if the batch in which the last of this one was rebuilt is committed."""
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
        """When something is to be done: somebody is acquitted, or a group is admitted."""
        ending = self._ending[0][0] if self._ending else None
        if not self.is_on:
            return ending
        if self.arrived is not None:
            # At once: how long the batch took that rebuilt them is seen in the next one.
            return 0
        if self.admit_at == LATEST:
            return ending
        return self.admit_at if ending is None else min(ending, self.admit_at)


def is_over(until: int, now: int) -> bool:
    """Whether a moment of a trial has passed. A clock that was set back does not prolong it."""
    return not until - WINDOW <= now < until
