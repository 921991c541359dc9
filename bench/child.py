"""The process of one run: `python -m bench.child JOB`. It imports only the modules that its workload needs."""

from __future__ import annotations

import asyncio
import importlib
import sys

from bench.job import Job, Outcome


def main(text: str) -> None:
    """Measure, and write the outcome to a file, so that the output of an engine cannot get mixed up with it."""
    job = Job.from_json(text)
    module, _, function = job.entry.partition(":")
    outcome: Outcome = asyncio.run(getattr(importlib.import_module(module), function)(job))
    job.end(outcome)


if __name__ == "__main__":
    main(sys.argv[1])
