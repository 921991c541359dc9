"""The process of one run: `python -m bench.child JOB ANSWER`. It imports only what its workload needs."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from pathlib import Path

from bench.job import Job, Outcome


def main(job_text: str, answer: str) -> None:
    """Measure, and leave the answer in a file: what an engine prints must not get mixed up with it."""
    job = Job.from_json(job_text)
    module, _, function = job.entry.partition(":")
    outcome: Outcome = asyncio.run(getattr(importlib.import_module(module), function)(job))
    Path(answer).write_text(outcome.to_json())
    sys.stdout.flush()
    # Not a plain return: an engine's own threads must not keep the process alive.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
