"""Where bugs are planted: a process that has loaded everything. It forks for each bug, so that no bug leaks.

It reads the names of bugs from standard input, one per line. It answers each with a line of JSON: the invariant that
noticed the bug, the seed, and what was seen. A bug that ends its process is answered with a text.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import traceback
from pathlib import Path

from simulation.scenario import make_scenario
from simulation.shrink import failure
from tests.planted.planting import BUDGET, BUGS

# Importing these files fills the table.
FILES = sorted(path.stem for path in Path(__file__).parent.glob("bugs_of_*.py"))
for name in FILES:
    importlib.import_module(f"tests.planted.{name}")


def notice(name: str) -> tuple[str, int, str] | None:
    """Plant a bug in this process. Returns the invariant that noticed it, the seed, and what was seen."""
    bug = BUGS[name]
    with bug.planted():
        for seed in range(bug.seed, bug.seed + BUDGET):
            if (violation := failure(make_scenario(seed))) is not None:
                return violation.invariant, seed, violation.what[:500]
    return None


def _answer(name: str) -> None:
    # The process of a bug is short: collecting garbage would take a fifth of its time.
    gc.disable()
    try:
        sys.stdout.write(json.dumps(notice(name)) + "\n")
    except BaseException:
        sys.stdout.write(json.dumps(traceback.format_exc()) + "\n")
    sys.stdout.flush()
    os._exit(0)


def main() -> None:
    """Answer until standard input ends."""
    for line in sys.stdin:
        if not (child := os.fork()):
            _answer(line.strip())
        if os.waitpid(child, 0)[1]:
            sys.stdout.write(json.dumps("the process of this bug has died") + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
