"""The command line."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs

from bench.plan import PEERS, WORKLOADS, Choice

NAMES = tuple(one.name for one in WORKLOADS)


@attrs.frozen(kw_only=True)
class Options:
    """What was asked for."""

    choice: Choice
    # Where the lines of results go; None: a new file in bench/results.
    out: Path | None
    # Below which the stores are made.
    folder: Path
    # Results to show instead of measuring.
    render: Path | None
    docs: bool

    @property
    def command(self) -> str:
        """How to measure the same again; where files lie on this machine is left out."""
        given, usual = self.choice, Choice()
        parts = ["python -m bench"]
        if given.only != usual.only:
            parts.append(f"--only {','.join(given.only)}")
        if given.peers != usual.peers:
            parts.append(f"--peers {','.join(given.peers) or 'none'}")
        parts += [f"--repeat {given.repeat}"] if given.repeat != usual.repeat else []
        parts += [f"--peer-repeat {given.peer_repeat}"] if given.peer_repeat != usual.peer_repeat else []
        parts += ["--quick"] if given.quick else []
        parts += ["--docs"] if self.docs else []
        return " ".join(parts)


def parse(arguments: Sequence[str]) -> Options:
    """The options of a command line. Ends the program with a message when they make no sense."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure durable beside the limits of this machine and beside other engines.",
        epilog="workloads: " + "; ".join(f"{one.name} {one.title}" for one in WORKLOADS),
    )
    add = parser.add_argument
    add("--only", type=_names("workload", NAMES), default=NAMES, help="workloads, with commas (default: all)")
    add("--peers", type=_peers, default=PEERS, help=f"{','.join(PEERS)}, with commas; all (default) or none")
    add("--repeat", type=_count, default=5, help="runs of each case (default: 5)")
    add("--peer-repeat", type=_count, default=2, help="runs of each case of a peer (default: 2)")
    add("--quick", action="store_true", help="small counts: a look, not a figure")
    add("--out", type=Path, help="file for the lines of results (default: a new one in bench/results)")
    add("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where stores are made; must be on a disk")
    add("--render", type=Path, metavar="FILE", help="do not measure, show the results in FILE")
    add("--docs", action="store_true", help="write docs/benchmarks.md and its plot")
    given = parser.parse_args(arguments)
    choice = Choice(
        only=given.only, peers=given.peers, repeat=given.repeat, peer_repeat=given.peer_repeat, quick=given.quick
    )
    return Options(choice=choice, out=given.out, folder=given.folder, render=given.render, docs=given.docs)


class _names:  # noqa: N801  # stands where argparse wants a function
    """Reads names with commas between them, each one of a few."""

    def __init__(self, what: str, known: Sequence[str]) -> None:
        self._what = what
        self._known = {name.lower(): name for name in known}

    def __call__(self, text: str) -> tuple[str, ...]:
        asked = [name.strip().lower() for name in text.split(",")]
        for name in asked:
            if name not in self._known:
                known = ", ".join(self._known.values())
                raise argparse.ArgumentTypeError(f"there is no {self._what} {name!r}; there are {known}")
        return tuple(found for name, found in self._known.items() if name in asked)


def _peers(text: str) -> tuple[str, ...]:
    if text in ("all", "none"):
        return PEERS if text == "all" else ()
    return _names("peer", PEERS)(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a number from 1 up, not {text!r}")
    return int(text)
