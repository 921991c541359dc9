"""Events: messages that arrive from outside, or from another workflow, and that a body can wait for.

An `Event` is shared by the senders and the waiters: both find each other by its name and an optional key. Which wait
gets which event is the engine's decision; here is only the wait (`EventOp`), the send (`EventSend`), and the payload
type.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Generic, TypeVar, get_args

from durable.errors import WrongType
from durable.model.clock import from_duration
from durable.model.codec import Codec, Coder
from durable.model.ids import check_text
from durable.model.records import DeliveryMode, EntryKind
from durable.runner.ambient import Ambient
from durable.runner.fibers import WaitCondition
from durable.runner.ops import Leaf

T = TypeVar("T")


class Event(Generic[T]):
    """A kind of message: its name, the type of its payload, and how it is delivered.

    `Event[Decision]("approval")`: the subscript is the payload type. With `consume_on_read=False` an event is not used
    up: every present and later waiter receives it until it expires.
    """

    _coder: tuple[Codec, Coder] | None = None

    def __init__(
        self,
        name: str,
        *,
        consume_on_read: bool = True,
        delivery_mode: DeliveryMode = DeliveryMode.ALL,
        expire_after: timedelta | float | None = None,
    ) -> None:
        self.name = check_text("event name", name)
        if not isinstance(delivery_mode, DeliveryMode):
            raise WrongType(f"event {name}", f"delivery_mode must be a DeliveryMode, not {delivery_mode!r}")
        self.consume_on_read = bool(consume_on_read)
        self.delivery_mode = delivery_mode
        self.expire_after_us = None if expire_after is None else from_duration(f"event {name}", expire_after)
        self.label = f"event {name}: payload"

    @property
    def payload_type(self) -> Any:
        """The type in the subscript, or `Any` without one."""
        # `Event[T](...)` sets this only after __init__ has returned.
        arguments = get_args(getattr(self, "__orig_class__", None))
        return arguments[0] if arguments else Any

    def coder(self, codec: Codec) -> Coder:
        """The coder of the payload, cached for the last codec. Raises `CodecError`."""
        cached = self._coder
        if cached is None or cached[0] is not codec:
            cached = self._coder = (codec, codec.coder(self.payload_type, self.label))
        return cached[1]

    def wait(self, key: str | None = None) -> EventOp[T]:
        """Wait for an event of this name, sent with the same key (or with none)."""
        return EventOp(self, key)

    def send(self, payload: T, *, to: str | None = None, key: str | None = None) -> EventSend:
        """Send an event from a body, to one workflow or to any that waits for it. Does not wait for an answer.

        The event is sent exactly once, in the same commit as the next step of this workflow. Raises in the body what
        `engine.send_event` raises: `WorkflowNotFound`, `WorkflowTerminated`, `PendingEventsFull`, `CodecError`, ...
        """
        return EventSend(self, payload, to, key)

    def __repr__(self) -> str:
        return f"<event {self.name}>"


class EventOp(Leaf[T]):
    """A wait for an event."""

    kind = EntryKind.EVENT

    def __init__(self, event: Event[T], key: str | None) -> None:
        self.event = event
        self.key = event_key(key)
        self.name = event_step(event.name, self.key)

    def coder(self, codec: Codec) -> Coder:
        """The coder of the payload. Raises `CodecError`."""
        return self.event.coder(codec)

    def __str__(self) -> str:
        return f"event {self.name}"


class EventSend(Leaf[None]):
    """An event that a workflow sends."""

    kind = EntryKind.SEND
    instead = "send it with engine.send_event(...)"

    def __init__(self, event: Event[Any], payload: Any, to: str | None, key: str | None) -> None:
        self.event = event
        self.payload = payload
        self.to = None if to is None else check_text("workflow id", to)
        self.key = event_key(key)
        # The target is not part of the name: if new code picks another target, running workflows must not diverge.
        self.name = event_step(event.name, self.key)

    def prepare(self, wait: WaitCondition, session: Ambient) -> None:
        """Pack the payload. Raises `CodecError`."""
        wait.input = self.event.coder(session.codec).pack(self.payload)[0]

    def __str__(self) -> str:
        return f"send of event {self.name}"


def event_key(key: str | None) -> str:
    """The stored form of an event key: the empty text means no key."""
    return "" if key is None else check_text("event key", key)


def event_step(name: str, key: str) -> str:
    """The name in a history of a wait for (or a send of) an event with this name and stored key."""
    return f"{name}[{key}]" if key else name
