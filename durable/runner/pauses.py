"""Pauses: a workflow asks a person a question and waits for the answer.

This module knows the prompt, the type of the answer and the deadline. It knows nothing about how pauses are listed and
answered; the engine does that. An answer arrives as an entry of kind PAUSE, an expiry as one with an error.
"""

from __future__ import annotations

from datetime import timedelta
from types import NoneType
from typing import Any, TypeVar, overload

from durable.model.clock import from_duration, later
from durable.model.codec import Codec, Coder
from durable.model.records import EntryKind
from durable.runner.ambient import Ambient
from durable.runner.fibers import WaitCondition
from durable.runner.ops import Leaf, Op

T = TypeVar("T")


class PauseOp(Leaf[T]):
    """A wait for an answer."""

    kind = EntryKind.PAUSE
    name = "pause"

    def __init__(self, returns: Any, prompt: object, expires_after: timedelta | float | None) -> None:
        self.returns = NoneType if returns is None else returns
        self.prompt = prompt
        self.expires_after = None if expires_after is None else from_duration("pause: expires_after", expires_after)

    @property
    def expects(self) -> str:
        """The name of the answer's type, for people."""
        return self.returns.__qualname__ if isinstance(self.returns, type) else str(self.returns)

    def coder(self, codec: Codec) -> Coder:
        """The coder of the answer. Raises `CodecError` for a type that cannot be stored."""
        return codec.coder(self.returns, "pause: answer")

    def prepare(self, wait: WaitCondition, session: Ambient) -> None:
        """Pack the prompt by its own type, and set the deadline. Raises `CodecError`."""
        # Check now that answers can be stored. Otherwise the person who answers would be the first to get the error.
        self.coder(session.codec)
        wait.input = session.codec.coder(type(self.prompt), "pause: prompt").pack(self.prompt)[0]
        if self.expires_after is not None:
            wait.deadline = later("pause: expires_after", session.now, self.expires_after)

    def __str__(self) -> str:
        return "pause"


@overload
def pause(*, returns: type[T], prompt: object = None, expires_after: timedelta | float | None = None) -> Op[T]: ...
@overload
def pause(*, returns: None, prompt: object = None, expires_after: timedelta | float | None = None) -> Op[None]: ...
@overload
def pause(*, returns: Any, prompt: object = None, expires_after: timedelta | float | None = None) -> Op[Any]: ...
def pause(*, returns: Any, prompt: object = None, expires_after: timedelta | float | None = None) -> Op[Any]:
    """Ask a person and wait for an answer of the type `returns`. Raises `PauseExpired`, `PauseCancelled`.

    `engine.pauses.list` shows the question, `engine.pauses.resume` answers it.
    """
    return PauseOp(returns, prompt, expires_after)
