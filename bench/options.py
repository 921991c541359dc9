"""The command line of `python -m bench`."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs

from bench.plan import PEERS, WORKLOADS, Choice

NAMES = tuple(workload.name for workload in WORKLOADS)


@attrs.frozen(kw_only=True)
class Options:
    """The options of the command line."""

    choice: Choice
    # The file for the lines of results. None means a new file in bench/results.
    out: Path | None
    # The folder under which stores are made.
    folder: Path
    # Results to show instead of measuring.
    render: Path | None
    docs: bool

    @property
    def command(self) -> str:
        """The command that measures the same again, without paths of this machine."""
        choice, default = self.choice, Choice()
        parts = ["python -m bench"]
        if choice.only != default.only:
            parts.append(f"--only {','.join(choice.only)}")
        if choice.peers != default.peers:
            parts.append(f"--peers {','.join(choice.peers) or 'none'}")
        parts += [f"--repeat {choice.repeat}"] if choice.repeat != default.repeat else []
        parts += [f"--peer-repeat {choice.peer_repeat}"] if choice.peer_repeat != default.peer_repeat else []
        parts += ["--quick"] if choice.quick else []
        parts += ["--docs"] if self.docs else []
        return " ".join(parts)


def parse(arguments: Sequence[str]) -> Options:
    """The options of a command line. Ends the program with a message if they are not valid."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure durable beside the limits of this machine and beside other engines.",
        epilog="workloads: " + "; ".join(f"{workload.name} {workload.title}" for workload in WORKLOADS),
    )
    add = parser.add_argument
    add("--only", type=_names("workload", NAMES), default=NAMES, help="workloads, with commas (default: all)")
    add("--peers", type=_peers, default=PEERS, help=f"{','.join(PEERS)}, with commas; all (default) or none")
    add("--repeat", type=_count, default=5, help="runs of each case (default: 5)")
    add("--peer-repeat", type=_count, default=2, help="runs of each case of a peer (default: 2)")
    add("--quick", action="store_true", help="small counts: a quick look, not figures to quote")
    add("--out", type=Path, help="file for the lines of results (default: a new one in bench/results)")
    add("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where stores are made; must be on a disk")
    add("--render", type=Path, metavar="FILE", help="do not measure, show the results in FILE")
    add("--docs", action="store_true", help="write docs/benchmarks.md and its plot")
    parsed = parser.parse_args(arguments)
    choice = Choice(
        only=parsed.only, peers=parsed.peers, repeat=parsed.repeat, peer_repeat=parsed.peer_repeat, quick=parsed.quick
    )
    return Options(choice=choice, out=parsed.out, folder=parsed.folder, render=parsed.render, docs=parsed.docs)


class _names:  # noqa: N801  # argparse calls it like a function
    """Reads names with commas between them, in any case and order."""

    def __init__(self, noun: str, allowed: Sequence[str]) -> None:
        self._noun = noun
        self._allowed = {name.lower(): name for name in allowed}

    def __call__(self, text: str) -> tuple[str, ...]:
        asked = [name.strip().lower() for name in text.split(",")]
        for name in asked:
            if name not in self._allowed:
                allowed = ", ".join(self._allowed.values())
                raise argparse.ArgumentTypeError(f"there is no {self._noun} {name!r}; choose from {allowed}")
        return tuple(spelled for name, spelled in self._allowed.items() if name in asked)


def _peers(text: str) -> tuple[str, ...]:
    if text in ("all", "none"):
        return PEERS if text == "all" else ()
    return _names("peer", PEERS)(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)
