"""Planted bugs: requests that are repeated because their answer was lost."""

from __future__ import annotations

from typing import Any

from durable.backends.base import Answers
from durable.engine.decide import requests
from durable.engine.decide.turn import Turn
from durable.engine.operations.requests import Request
from durable.engine.state.requests import Requests
from tests.planted.planting import Planter, bug


@bug("I16")
def repeated_request_is_decided_again(planter: Planter) -> None:
    """A change that a client repeats takes effect once."""

    def answer(self: Requests, request_id: str) -> str | None:
        return None

    planter.replace(Requests, answer)


@bug("I16")
def refusals_only_are_remembered(planter: Planter) -> None:
    """The answer to an accepted change is stored in the commit of the change."""
    keep = requests.keep_answer

    def keep_answer(turn: Turn, request: Request, reply: Any, refusal: BaseException | None) -> None:
        if refusal is not None:
            keep(turn, request, reply, refusal)

    planter.replace(requests, keep_answer)


@bug("I16")
def answers_are_forgotten_at_the_next_sweep(planter: Planter) -> None:
    """An answer is kept for as long as a client may repeat its request."""

    def sweep_answers(turn: Turn, limit: int) -> int:
        old = turn.state.backend.find(Answers(before=turn.now, limit=limit))
        turn.state.requests.drop_answers(old)
        return len(old)

    planter.replace(requests, sweep_answers)
