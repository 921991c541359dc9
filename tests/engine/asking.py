"""Workflows that ask people, and short forms for answering them."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from durable import (
    Durable,
    EngineConfig,
    OpenPause,
    PauseCancelled,
    PauseExpired,
    gather,
    pause,
    race,
    sleep,
    workflow,
)
from durable.engine import operations as ops
from durable.engine.operations import ListPauses, ResumePause
from durable.runner.definitions import WorkflowDef
from tests.engine.direct import DirectEngine, refusal
from tests.engine.flows import EVERY, go

A = TypeVar("A")


@workflow(name="pauses.asker")
def asker(count: int = 1, expires_after: float | None = None) -> Durable[list[Any]]:
    """Asks some questions in a row. An error raised instead of an answer is part of the result."""
    answers: list[Any] = []
    for number in range(count):
        try:
            answers.append((yield from pause(returns=int, prompt=f"number {number}?", expires_after=expires_after)))
        except (PauseExpired, PauseCancelled) as error:
            answers.append(str(error))
    return answers


@workflow(name="pauses.crowd")
def crowd() -> Durable[list[Any]]:
    """Asks three questions at once, then sleeps."""
    answers = yield from gather(
        pause(returns=int, prompt="a"), pause(returns=int, prompt="b"), pause(returns=int, prompt="c")
    )
    yield from sleep(60)
    return list(answers)


@workflow(name="pauses.rounds")
def rounds(left: int) -> Durable[int]:
    """Asks one question per round."""
    answer = yield from pause(returns=int, prompt=left)
    if left:
        raise rounds.continue_as(left - 1)
    return answer


@workflow(name="pauses.loser")
def loser() -> Durable[Any]:
    """Races a question against an event, then sleeps."""
    won = yield from race(person=pause(returns=int, prompt="?"), event=go.wait())
    yield from sleep(60)
    return won.key


FLOWS: tuple[WorkflowDef[Any, Any], ...] = (asker, crowd, rounds, loser, *EVERY)
# One body in memory at a time: every step rebuilds it.
TIGHT = EngineConfig(max_loaded_workflows=1)


def pauses(engine: DirectEngine, **filters: Any) -> list[OpenPause]:
    """The listed pauses."""
    return engine.do(ListPauses(after=filters.pop("after", 0), limit=filters.pop("limit", 100), **filters))


def ids(engine: DirectEngine, **filters: Any) -> list[str]:
    """The ids of the listed pauses."""
    return [listed.pause_id for listed in pauses(engine, **filters)]


def reply(engine: DirectEngine, operation: ops.Operation[A]) -> A:
    """Decide and commit one operation. A refusal is returned, not raised."""
    (stored_reply,) = engine.batch(operation)
    answer: A = stored_reply
    return answer


def resume(engine: DirectEngine, pause_id: str, answer: Any, id: str = "w") -> Any:
    """Answer a pause. Returns None, or the refusal in a form that can be compared."""
    refused = reply(engine, ResumePause(id, pause_id, json.dumps(answer)))
    return None if refused is None else refusal(refused)
