"""Requests of other processes: a change that is decided once, however often it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs


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
