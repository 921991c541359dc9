"""Whether the body of a stored workflow has run in its present round: the one definition of "not begun yet".

Most bodies run for the first time in the commit that stores their workflow. Some run in a later commit: a delayed
start, the next round after `continue_as`, the run of a schedule. The process may end in between. The next one then
sees only the row and the history, and these do not always tell.

No column records it. The first step of a round often changes nothing else in the row, so a column would cost a commit
for every round. What the doubt means is up to the caller:

- An engine that rebuilds a body takes "maybe" for "yes". The round may have started an activity, and then it must not
  take other code (I24).
- A check of new code takes it for "no". A body may fail in its first step, and that does not mean that the code does
  not fit.

An engine knows more about the workflows that it has stored itself: see `has_begun` in `engine.state.state`.
"""

from __future__ import annotations

import enum

from durable.model.records import WorkflowRecord, WorkflowStatus


class Begun(enum.Enum):
    """Whether a body has run in its round, as far as its row and its history tell."""

    NO = "no"
    MAYBE = "maybe"
    YES = "yes"


def begun(record: WorkflowRecord, *, has_entries: bool) -> Begun:
    """Whether the body of a workflow has run in its round. `has_entries`: whether its history has any."""
    if has_entries:
        return Begun.YES
    is_suspended = record.status is WorkflowStatus.SUSPENDED
    if is_suspended and record.round == 0 and record.created_at < record.start_at == record.wake_at:
        # A delayed start that waits for its time. Parking it clears the deadline, so a parked one counts as begun.
        return Begun.NO
    # `continue_as` is one commit and the first step of the next round another. Only that step can suspend the round.
    return Begun.MAYBE if record.round > 0 and not is_suspended else Begun.YES
