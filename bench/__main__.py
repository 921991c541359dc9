"""`make bench`: measure, write one JSON line per run, and show tables. `python -m bench --help` lists the options."""

from __future__ import annotations

import importlib.util
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench import page
from bench.goals import goals
from bench.machine import about, is_in_memory
from bench.options import Options, parse
from bench.plan import Planned, plan
from bench.results import Line, Results, read_file
from bench.runs import Runner
from bench.tables import workloads

RESULTS = Path(__file__).parent / "results"


def main(arguments: list[str]) -> None:
    """Run the command line."""
    # As an exception, so that a run that is stopped still removes its stores and servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parse(arguments)
    path = options.render or measure(options)
    results = read_file(path)
    print(f"\n{workloads(results)}\n\n{goals(results)}\n\nresults: {path}")
    if options.docs:
        _write_docs(results)


def _write_docs(results: Results) -> None:
    """Write the page, and draw the plot if matplotlib is installed."""
    has_plot = importlib.util.find_spec("matplotlib") is not None
    if has_plot:
        importlib.import_module("bench.plot").draw(results, page.PLOT)
    else:
        print("no plot is drawn: matplotlib is missing (pip install 'durable-engine[bench]')")
    page.write(results, has_plot=has_plot)
    print(f"written: {page.PAGE}")


def measure(options: Options) -> Path:
    """Make all runs and return the file with their lines."""
    if is_in_memory(options.folder):
        sys.exit(f"{options.folder} is in memory, where an fsync costs nothing: set TMPDIR or --folder to a real disk")
    path = options.out or RESULTS / time.strftime("%Y%m%d-%H%M%S.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="durable-bench-", dir=options.folder))
    try:
        with path.open("w") as file:
            for line in _lines(options, folder):
                file.write(line + "\n")
                file.flush()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return path


def _lines(options: Options, folder: Path) -> Iterator[str]:
    """The line about the machine, then one for each run as it ends."""
    yield json.dumps({"about": about(folder, options.command, quick=options.choice.quick)})
    runner = Runner(folder)
    planned = plan(options.choice)
    failed: set[tuple[str, str, str]] = set()
    for number, run in enumerate(planned, start=1):
        case = (run.workload.name, run.case.name, run.contender)
        if case in failed:
            # A case that failed is not repeated: a peer that hangs would take minutes each time.
            continue
        began = time.monotonic()
        line = runner.run(run)
        if line.did_not_run:
            failed.add(case)
        took = time.monotonic() - began
        print(f"[{number}/{len(planned)}] {run.label}: {_summary(run, line)} ({took:.0f} s)", flush=True)
        yield line.to_json()


def _summary(run: Planned, line: Line) -> str:
    """The first figures of a run, for the progress line."""
    if line.did_not_run:
        return f"did not run: {line.did_not_run}"
    columns = [column for column in run.workload.columns if column.figure in line.figures][:3]
    return ", ".join(
        f"{column.heading} {format(line.figures[column.figure] * column.factor, column.format)}" for column in columns
    )


if __name__ == "__main__":
    main(sys.argv[1:])
