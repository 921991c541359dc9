"""The faults of a scenario: what can go wrong, how often, and in which shard."""

from __future__ import annotations

import enum
from collections.abc import Iterator

import attrs

from simulation.dice import Dice


class Trouble(enum.Enum):
    """What can go wrong. The text says what the number of such a fault counts."""

    CRASH_BEFORE_COMMIT = "the process dies before the n-th commit"
    CRASH_AFTER_COMMIT = "the process dies after the n-th commit, before it acts on it"
    CRASH = "the process dies at the n-th step"
    RESTART = "a clean restart at the n-th step"
    FAIL_COMMIT = "the n-th commit fails"
    LIE_ABOUT_COMMIT = "the n-th commit happens and is reported as failed"
    OUTAGE = "from the n-th commit on the store fails until the engine gives up"
    FAIL_CALL = "the n-th call of the store fails"
    CLOCK = "the wall clock is set at the n-th step"
    DUPLICATE_ANSWER = "the n-th answer of an activity arrives twice"
    LATE_ANSWER = "the n-th activity that is stopped still delivers a result"
    CRASH_IN_BODY = "the process dies in the n-th step of a body"
    POISON = "the n-th workflow kills the process whenever its body is fed"
    STALL = "from the n-th step on a shard does nothing for a while, and its letters wait"
    ORPHAN = "the process of a shard dies at the n-th step, and the shard has no owner for a while"
    TAKEOVER = "another process has taken the shard when the n-th commit is made"


@attrs.frozen
class Fault:
    """One thing that goes wrong."""

    trouble: Trouble
    at: int
    # By how many milliseconds the clock is set, how long a shard stalls or has no owner, or how many entries a
    # poisonous body takes before it kills.
    by: int = 0
    # The shard whose steps, commits and calls are counted.
    shard: int = 0


# How often each trouble comes at most in a scenario, and the largest number at which it strikes.
_TROUBLES = {
    Trouble.CRASH_BEFORE_COMMIT: (2, 60),
    Trouble.CRASH_AFTER_COMMIT: (2, 60),
    Trouble.CRASH: (2, 250),
    Trouble.RESTART: (1, 300),
    Trouble.FAIL_COMMIT: (2, 80),
    Trouble.LIE_ABOUT_COMMIT: (3, 80),
    Trouble.OUTAGE: (1, 200),
    Trouble.FAIL_CALL: (2, 450),
    Trouble.CLOCK: (2, 300),
    Trouble.DUPLICATE_ANSWER: (4, 80),
    Trouble.LATE_ANSWER: (4, 20),
}
# The crashes that may come in a row, and the largest distance between them.
_AGAIN = {Trouble.CRASH_BEFORE_COMMIT: 3, Trouble.CRASH_AFTER_COMMIT: 3, Trouble.CRASH: 40}


def make_faults(dice: Dice) -> Iterator[Fault]:
    """The faults of a scenario in a store with one shard."""
    for trouble, (most, last) in _TROUBLES.items():
        for _ in range(dice.between(0, most)):
            by = dice.between(-90_000, 90_000) if trouble is Trouble.CLOCK else 0
            at = dice.between(1, last)
            yield Fault(trouble, at, by)
            if trouble in _AGAIN and dice.chance(0.3):
                # Again while the engine recovers, before any workflow has made progress.
                for _ in range(dice.between(1, 3)):
                    at += dice.between(1, _AGAIN[trouble])
                    yield Fault(trouble, at)


# --- in a store with several shards ---------------------------------------------------------------------------------

# The share of scenarios with several shards, and how many they have: four of ten seeds end up with two or three.
_SHARE = 0.48
_SHARDS = {2: 3, 3: 2}


def shard_count(seed: int) -> int:
    """How many shards the store of a scenario has; from separate dice."""
    dice = Dice(f"cluster {seed}")
    return dice.weighted(_SHARDS) if dice.chance(_SHARE) else 1


def spread(seed: int, shards: int, faults: tuple[Fault, ...]) -> Iterator[Fault]:
    """The faults of a scenario, each assigned to a shard, and the additional faults of stores with several shards."""
    dice = Dice(f"troubles of a cluster {seed}")
    for fault in faults:
        yield attrs.evolve(fault, shard=dice.below(shards))
    for _ in range(dice.between(0, 3)):
        longest = dice.weighted({2_000: 3, 20_000: 2, 200_000: 1})
        yield Fault(Trouble.STALL, dice.between(1, 300), dice.between(1, longest), dice.below(shards))
    for _ in range(dice.between(0, 2)):
        yield Fault(Trouble.ORPHAN, dice.between(1, 300), dice.between(1, 150_000), dice.below(shards))
    for _ in range(dice.between(0, 3)):
        yield Fault(Trouble.TAKEOVER, dice.between(1, 60), 0, dice.below(shards))
