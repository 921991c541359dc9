"""All runs in order. The contenders of a case take turns, repeat by repeat, so a noisy minute disturbs all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from bench.workload import Case, Sizes, Store, Workload
from bench.workloads.limits import DISK, INSERTS
from bench.workloads.w1 import W1
from bench.workloads.w2 import W2
from bench.workloads.w3 import W3
from bench.workloads.w4 import W4
from bench.workloads.w5 import W5
from bench.workloads.w6 import W6
from bench.workloads.w7 import W7
from bench.workloads.w8 import W8
from bench.workloads.w9 import W9

WORKLOADS: tuple[Workload, ...] = (DISK, INSERTS, W1, W2, W3, W4, W5, W6, W7, W8, W9)
PEERS = ("dbos", "edda", "restate")
# Contenders that are not engines, and the functions that measure them.
LIMITS = {
    "bare loop": "bench.bare:measure",
    "one commit": "bench.commits:one_commit",
    "two commits": "bench.commits:two_commits",
    "two commits, log laid out": "bench.commits:two_commits_laid_out",
}


@attrs.frozen(kw_only=True)
class Choice:
    """Which runs the person at the command line wants."""

    only: Sequence[str] = tuple(workload.name for workload in WORKLOADS)
    peers: Sequence[str] = PEERS
    repeat: int = 5
    # Peers take long, and two runs are enough to show a large factor.
    peer_repeat: int = 2
    quick: bool = False


@attrs.frozen(kw_only=True)
class Planned:
    """One run to make."""

    workload: Workload
    case: Case
    contender: str
    entry: str
    sizes: dict[str, float]
    store: Store | None
    repeat: int
    repeats: int

    @property
    def label(self) -> str:
        """The name of the run in progress lines."""
        return f"{self.workload.name}, {self.case.name}, {self.contender}"


def plan(choice: Choice) -> list[Planned]:
    """The runs of a choice, in the order in which they are made."""
    chosen = [workload for workload in WORKLOADS if workload.name in choice.only]
    return [run for workload in chosen for case in workload.cases for run in _case(choice, workload, case)]


def _case(choice: Choice, workload: Workload, case: Case) -> Iterator[Planned]:
    for repeat in range(min(choice.repeat, case.repeats_max)):
        for contender, changes in case.contenders.items():
            is_peer = contender in PEERS
            repeats = min(choice.repeat, case.repeats_max, choice.peer_repeat if is_peer else choice.repeat)
            if repeat >= repeats or (is_peer and contender not in choice.peers):
                continue
            yield Planned(
                workload=workload,
                case=case,
                contender=contender,
                entry=LIMITS.get(contender, case.entry or workload.entry),
                sizes=_sizes(case, changes, quick=choice.quick),
                store=case.store,
                repeat=repeat,
                repeats=repeats,
            )


def _sizes(case: Case, changes: Sizes, *, quick: bool) -> dict[str, float]:
    """The sizes for a contender. With `--quick`, the smaller of the quick size and the contender's own."""
    usual = dict(case.sizes) | dict(changes)
    return {name: min(usual[name], case.quick.get(name, usual[name])) if quick else usual[name] for name in usual}
