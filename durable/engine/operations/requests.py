"""Requests of other processes: changes that are decided once, and those that were kept while no engine ran."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from durable.engine.operations.base import Operation
from durable.errors import DurableError
from durable.model.requests import KeptRequest


@attrs.frozen
class Request:
    """The request behind an operation. Its answer is stored in the commit that decides the operation.

    `write` makes the text of an answer, of a reply or else of a refusal.
    """

    id: str
    write: Callable[[Any, BaseException | None], str]


@attrs.frozen
class Repeated:
    """Instead of a reply: the request was decided before, and this is the text of its first answer."""

    text: str


@attrs.frozen
class DecideKept(Operation[None]):
    """Decide a request that a client has kept while no engine ran.

    `operation` is ready to be decided; or, with a `refusal`, as it was sent. It is None if it cannot be read at all.
    """

    request: KeptRequest
    operation: Operation[Any] | None
    refusal: DurableError | None = None

    def reads(self) -> tuple[str | int, ...]:
        return () if self.operation is None else self.operation.reads()
