"""The kinds of events that programs wait for, and how each is sent."""

from __future__ import annotations

import functools
import json

import attrs

from durable.model.records import DeliveryMode
from durable.runner.events import Event


@attrs.frozen(kw_only=True)
class Kind:
    """How events of a kind are sent and waited for."""

    weight: int
    # How many event names there are: few, so that workflows compete for events.
    names: int
    is_targeted: bool = False
    consume: bool = True
    mode: DeliveryMode = DeliveryMode.ALL
    expire_after: float | None = None
    # Whether a wait may miss events. It must have a limit then, or it might never end.
    is_choosy: bool = False


KINDS = {
    "letter": Kind(weight=5, names=2, is_targeted=True),
    "shared": Kind(weight=3, names=2),
    "broadcast": Kind(weight=2, names=2, consume=False),
    "fresh": Kind(weight=1, names=1, mode=DeliveryMode.AFTER_WAIT, is_choosy=True),
    "young": Kind(weight=1, names=1, mode=DeliveryMode.AFTER_CREATE, is_choosy=True),
    "brief": Kind(weight=1, names=1, is_targeted=True, expire_after=3.0, is_choosy=True),
}
WEIGHTS = {name: kind.weight for name, kind in KINDS.items()}


@functools.cache
def event_of(name: str) -> Event[str]:
    """The event with this name; the name begins with its kind."""
    kind = KINDS[name.partition("-")[0]]
    return Event[str](
        name, consume_on_read=kind.consume, delivery_mode=kind.mode, expire_after=kind.expire_after
    )  # fmt: skip


# --- payloads -------------------------------------------------------------------------------------------------------

# The last part of the id of an unreadable event begins with this.
POISON = "poison"


def is_by_request(event_id: str) -> bool:
    """Whether the sender of this event relies on the id of its request, as a client of another process does."""
    return event_id[-1] in "13579"


def payload_of(event_id: str) -> str:
    """The payload of an event as JSON: its id, so that it is recognized wherever it appears.

    Programs wait for a string, so the payload of an unreadable event is a list.
    """
    is_poison = event_id.rpartition("/")[2].startswith(POISON)
    return f'["{event_id}"]' if is_poison else f'"{event_id}"'


def is_unreadable(payload: str) -> bool:
    """Whether no program can read a payload."""
    return payload.startswith("[")


def read_payload(payload: str) -> tuple[str, str, Kind]:
    """Name, key and kind of an event, from its payload."""
    name, key, _ = json.loads(payload.strip("[]")).split("/")
    return name, "" if key == "None" else key, KINDS[name.partition("-")[0]]
