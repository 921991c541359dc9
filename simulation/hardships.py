"""Additions to some scenarios: unreadable events, missing code, short retention, operators who retry and fork.

Each is drawn from separate dice, so a scenario without an addition is the same as if this file did not exist. Acts are
made in their written form, as JSON values, and `scenario` reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from simulation.dice import Dice
from simulation.kinds import POISON
from simulation.rows import ROWS, Maker
from simulation.steps import Step, to_json

# The share of scenarios with events that no program can read.
_POISON_SHARE = 0.2
# The share of scenarios in which the code is missing for a while.
_CODELESS_SHARE = 0.15
# The share, among those whose clock is never set (a third of all), in which events are kept only for a while.
_RETENTION_SHARE = 0.3
# The share of scenarios in which operators retry workflows that failed or are parked.
_RETRY_SHARE = 0.3
# The share in which operators fork workflows, at a recorded step.
_FORK_SHARE = 0.2
# The first number of the steps of programs made here. No other program has such numbers.
_FIRST_NUMBER = 500_000


def make_poison(seed: int, sends: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Acts that send unreadable events around the time of some of the given sends; or none."""
    dice = Dice(f"poison {seed}")
    if not dice.chance(_POISON_SHARE):
        return
    for count, send in enumerate(sends):
        if dice.chance(0.4):
            event_id = f"{send['event']}/{send['key']}/{POISON}{count}"
            at = max(0, send["at"] + dice.between(-3_000, 3_000))
            yield {**send, "client": 400 + count, "at": at, "event_id": event_id}


def codeless_lives(seed: int) -> tuple[tuple[int, ...], list[int]]:
    """The starts of the process after which it has no code, and the steps at which it is restarted in any case."""
    dice = Dice(f"codeless {seed}")
    if not dice.chance(_CODELESS_SHARE):
        return (), []
    lives = {dice.between(2, 5) for _ in range(dice.between(1, 2))}
    return tuple(sorted(lives)), [dice.between(20, 250) for _ in range(dice.between(1, 2))]


def short_retention(seed: int) -> dict[str, int]:
    """Settings for how many seconds events are kept, and how often they are swept; empty if they are always kept."""
    dice = Dice(f"retention {seed}")
    if not dice.chance(_RETENTION_SHARE):
        return {}
    return {"event_retention": dice.between(15, 60), "sweep_every": dice.between(1, 10)}


def make_late_mail(seed: int) -> Iterator[dict[str, Any]]:
    """Acts for workflows that are started late or never, and for events sent to them before."""
    dice = Dice(f"late mail {seed}")
    client = 500
    for index in range(dice.between(1, 3)):
        id = f"late{index}"
        for count in range(dice.between(1, 3)):
            client += 1
            kind = dice.weighted({"letter": 3, "brief": 1})
            yield {
                "client": client,
                "at": dice.below(20_000),
                "verb": "SEND",
                "id": id,
                "event": f"{kind}-0",
                "event_id": f"{kind}-0/None/{id}-{count}",
                "is_early": True,
            }
        if dice.chance(0.6):
            client += 1
            program = to_json(_reader(dice, _FIRST_NUMBER * (index + 1)))
            yield {"client": client, "at": dice.below(90_000), "verb": "START", "id": id, "program": program}


def _reader(dice: Dice, number: int) -> Step:
    """A program that waits for mail, each time with a limit."""
    maker = Maker(dice, number)
    wait = {"event": "letter-0", "key": None, "default": True}
    waits = [maker.step("event", **wait, limit=dice.between(0, 8_000)) for _ in range(dice.between(1, 2))]
    return maker.step("rounds", maker.step("sequence", *waits, ROWS["work"].make(maker)))


def make_repairs(seed: int, ids: list[str], forkable: list[str]) -> Iterator[dict[str, Any]]:
    """The acts of operators: retries and forks."""
    yield from _make_retries(seed, ids)
    yield from _make_forks(seed, forkable)


def _make_retries(seed: int, ids: list[str]) -> Iterator[dict[str, Any]]:
    """Retries. Most wait until there is something to retry; the early ones do not look."""
    dice = Dice(f"retries {seed}")
    if not dice.chance(_RETRY_SHARE):
        return
    client = 700
    for id in ids:
        for _ in range(dice.weighted({0: 1, 1: 3, 2: 2})):
            client += 1
            at, is_early = dice.below(40_000), dice.chance(0.2)
            yield {"client": client, "at": at, "verb": "RETRY", "id": id, "is_early": is_early}


def _make_forks(seed: int, ids: list[str]) -> Iterator[dict[str, Any]]:
    """Forks, each at some entry of the history, by a number that the client maps to an entry."""
    dice = Dice(f"forks {seed}")
    if not dice.chance(_FORK_SHARE):
        return
    client = 800
    for id in ids:
        for count in range(dice.weighted({0: 2, 1: 3, 2: 1})):
            client += 1
            at, number = dice.below(60_000), dice.below(12)
            yield {"client": client, "at": at, "verb": "FORK", "id": id, "number": number, "run": f"fork{count}-{id}"}
