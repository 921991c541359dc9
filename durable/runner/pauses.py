"""Pauses: a workflow puts a question to a person and waits for the answer.

Knows the prompt, the type of the answer and how long there is time for it. Must not know who lists the questions and
brings the answers.
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
        """The type of the answer in words."""
        return self.returns.__qualname__ if isinstance(self.returns, type) else str(self.returns)

    def coder(self, codec: Codec) -> Coder:
        """The coder of the answer. Raises `CodecError` for a type that cannot be stored."""
        return codec.coder(self.returns, "pause: answer")

    def prepare(self, wait: WaitCondition, session: Ambient) -> None:
        """Pack the prompt by its own type, and set the deadline. Raises `CodecError`."""
        # Find out now that answers can be stored: the person who gives one must not be the first to learn.
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
    """Ask a person, and wait for the answer, which is a `returns`. Raises `PauseExpired`, `PauseCancelled`.

    The question is listed by `engine.pauses.list` and answered with `engine.pauses.resume`.
    """
    return PauseOp(returns, prompt, expires_after)
