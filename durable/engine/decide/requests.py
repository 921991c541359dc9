"""Requests of callers in other processes: each is decided once, and its answer is repeated for a while."""

from __future__ import annotations

from typing import Any

from durable.backends.base import Answers
from durable.engine.decide.turn import Turn
from durable.engine.operations.requests import Repeated, Request
from durable.model.clock import SECOND
from durable.model.requests import StoredAnswer

# How long an answer is kept, in microseconds: longer than any caller repeats its request.
KEPT_FOR = 600 * SECOND


def repeated(turn: Turn, request: Request) -> Repeated | None:
    """The first answer to a request that was decided before; None if it must be decided."""
    text = turn.state.requests.answer(request.id)
    return None if text is None else Repeated(text)


def keep_answer(turn: Turn, request: Request, reply: Any, refusal: BaseException | None) -> None:
    """Store the answer to a request in the commit of everything that it has changed."""
    text = request.write(reply, refusal)
    turn.state.requests.put_answer(StoredAnswer(request_id=request.id, text=text, at=turn.now))


def sweep_answers(turn: Turn, limit: int) -> int:
    """Forget the answers that are older than anyone repeats a request. Returns how many."""
    old = turn.state.backend.find(Answers(before=turn.now - KEPT_FOR, limit=limit))
    turn.state.requests.drop_answers(old)
    return len(old)
