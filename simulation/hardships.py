"""What some scenarios have on top, each from dice of its own: without it they are as they would be without this file.

Acts are made here as they are written down, as JSON; `scenario` reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from simulation.dice import Dice
from simulation.kinds import POISON
from simulation.rows import ROWS, Maker
from simulation.steps import Step, to_json

# In how many scenarios somebody sends what nobody can read.
_POISON_SHARE = 0.2
# In how many the code is missing for a while.
_CODELESS_SHARE = 0.15
# In how many of those whose clock is never set events are not kept for ever: that is a third of all.
_RETENTION_SHARE = 0.3
# In how many operators retry what has failed or is parked.
_RETRY_SHARE = 0.3
# In how many they fork, from a step that was done.
_FORK_SHARE = 0.2
# Of the steps of programs that are made here: no other program has such numbers.
_FIRST_NUMBER = 500_000


def make_poison(seed: int, sends: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Events that nobody can read, beside some of those that are sent; or nothing."""
    dice = Dice(f"poison {seed}")
    if not dice.chance(_POISON_SHARE):
        return
    for count, send in enumerate(sends):
        if dice.chance(0.4):
            event_id = f"{send['event']}/{send['key']}/{POISON}{count}"
            at = max(0, send["at"] + dice.between(-3_000, 3_000))
            yield {**send, "client": 400 + count, "at": at, "event_id": event_id}


def codeless_lives(seed: int) -> tuple[tuple[int, ...], list[int]]:
    """After which starts of the process it has no code, and at which steps it is started again in any case."""
    dice = Dice(f"codeless {seed}")
    if not dice.chance(_CODELESS_SHARE):
        return (), []
    lives = {dice.between(2, 5) for _ in range(dice.between(1, 2))}
    return tuple(sorted(lives)), [dice.between(20, 250) for _ in range(dice.between(1, 2))]


def short_retention(seed: int) -> dict[str, int]:
    """For how many seconds events are kept, and how often they are looked through; empty for ever."""
    dice = Dice(f"retention {seed}")
    if not dice.chance(_RETENTION_SHARE):
        return {}
    return {"event_retention": dice.between(15, 60), "sweep_every": dice.between(1, 10)}


def make_late_mail(seed: int) -> Iterator[dict[str, Any]]:
    """Workflows that are started late or never, and what is sent to them before."""
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
    """A program that waits for mail, and waits for none of it for ever."""
    maker = Maker(dice, number)
    wait = {"event": "letter-0", "key": None, "default": True}
    waits = [maker.step("event", **wait, limit=dice.between(0, 8_000)) for _ in range(dice.between(1, 2))]
    return maker.step("rounds", maker.step("sequence", *waits, ROWS["work"].make(maker)))


def make_repairs(seed: int, ids: list[str], forkable: list[str]) -> Iterator[dict[str, Any]]:
    """What operators do to set things right."""
    yield from _make_retries(seed, ids)
    yield from _make_forks(seed, forkable)


def _make_retries(seed: int, ids: list[str]) -> Iterator[dict[str, Any]]:
    """What operators retry: some wait until there is something to retry, some do not look."""
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
    """What operators fork, and where: at some entry of the history, which few have read to its end."""
    dice = Dice(f"forks {seed}")
    if not dice.chance(_FORK_SHARE):
        return
    client = 800
    for id in ids:
        for count in range(dice.weighted({0: 2, 1: 3, 2: 1})):
            client += 1
            at, number = dice.below(60_000), dice.below(12)
            yield {"client": client, "at": at, "verb": "FORK", "id": id, "number": number, "run": f"fork{count}-{id}"}
