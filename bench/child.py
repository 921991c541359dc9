"""The process of one run: `python -m bench.child JOB`. It imports only what its workload needs."""

from __future__ import annotations

import asyncio
import importlib
import sys

from bench.job import Job, Outcome


def main(text: str) -> None:
    """Measure, and leave the answer in a file: what an engine prints must not get mixed up with it."""
    job = Job.from_json(text)
    module, _, function = job.entry.partition(":")
    outcome: Outcome = asyncio.run(getattr(importlib.import_module(module), function)(job))
    job.end(outcome)


if __name__ == "__main__":
    main(sys.argv[1])
