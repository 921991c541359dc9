"""Which workflows may have taken the last process down, and which of them are allowed to run yet.

A body that kills the process is easy to identify: the engine marks whose body it runs (`State.mark`). Activities are
harder, because many run at once. So after an unclean stop every workflow with open activities is a *suspect*. When an
activity of a suspect begins, the suspect is *on trial* for a short time (`WINDOW`).

If the process dies during a trial, the workflows on trial are the *accused* of the next start. That start admits the
first half of the accused, then the other half, then all other suspects, one window apart. The culprit is in the group
that is on trial when the process dies, so one culprit among n is isolated after about log2(n) crashes. A suspect that
survives its trial is *acquitted*.

A kill from outside after the trials accuses no workflow, and no suspect waits longer than two windows.

Part of the coordinator's state, changed only by `decide.recovery`. Knows nothing about what a suspect does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import attrs

from durable.backends.base import Batch
from durable.model.clock import LATEST, SECOND

# How long an activity is a suspect for the death of the process once it has begun. Short enough that the last of three
# groups runs within a second of the start.
WINDOW = 3 * SECOND // 10
# How long to wait for a group whose activities do not begin, because they wait for a thread.
PATIENCE = 3 * WINDOW


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
