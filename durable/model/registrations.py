"""How a wait of one shard is noted in another. Both are part of `EventWait`, and unused in a store with one shard."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Registration:
    """A wait for an event, as the event's home in another shard knows it.

    `rank` is its place in the line there, by a serial of that shard; None until it has one. It takes only events that
    were stored after `after_mark`, or after `created_mark`, as its delivery mode says. None stands for the mark of the
    letter that says so.
    """

    rank: int | None = None
    after_mark: int | None = None
    created_mark: int | None = None


_UNRANKED = Registration()


@attrs.frozen(kw_only=True)
class Guest:
    """Of a wait that is noted here for a workflow of another shard: the serial that it has there, how it is registered,
    and the serial of the last broadcast of this name and key that the workflow has taken."""

    serial: int
    registration: Registration = _UNRANKED
    cursor: int = 0
