"""Where everything lives: the home shard of a workflow, a schedule and an event.

A store has a fixed number of shards; SQLite has one. A home follows from a text alone, so everybody finds it without
asking: from the id of a workflow, the name of a schedule, the name and key of an event. It is stored in the sense that
rows lie where it says: another hash would lose them all. `tests/formats/test_homes.py` pins it.

Keys and serials are `number × shards + shard`, so a key tells its shard. With one shard they are the numbers 1, 2, 3.
"""

from __future__ import annotations

import attrs

from durable.model.ids import seed


@attrs.frozen
class Shard:
    """One shard of a store: its number, from 0 on, and how many there are."""

    number: int = 0
    count: int = 1

    def owns_key(self, key: int) -> bool:
        """Whether a workflow, a wait or an event with this key or serial lives here."""
        return key_home(key, self.count) == self.number

    def owns_workflow(self, id: str) -> bool:
        """Whether the workflow with this id lives here."""
        return self.count == 1 or workflow_home(id, self.count) == self.number


# The shard of a store that has no other.
ONLY = Shard()


def workflow_home(id: str, shards: int) -> int:
    """The shard of the workflow with this id, started or not."""
    return seed("workflow", id) % shards


def schedule_home(name: str, shards: int) -> int:
    """The shard of a schedule."""
    return seed("schedule", name) % shards


def event_home(name: str, event_key: str, shards: int) -> int:
    """The shard in which untargeted events of this name and key meet those who wait for them."""
    return seed("event", name, event_key) % shards


def key_home(key: int, shards: int) -> int:
    """The shard that has given out the key of a workflow or a serial."""
    return key % shards
