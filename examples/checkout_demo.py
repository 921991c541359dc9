"""An order survives the death of its process, twice. Run it with `make demo`.

This process only watches and kills. The workflow runs in three other processes, one after the other, on one SQLite
file. The first is killed while the order waits for an approval, the second in the middle of an activity.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path

import anyio
import attrs

from durable import EntryStatus, WorkflowEngine
from examples import outside
from examples.checkout import Decision, Order, approval, checkout

ORDER = Order(id="order-42", item="a blue bicycle", amount=Decimal("389.00"), email="customer@example.org")
ACTIVITIES = ("reserve_stock", "charge", "render_receipt", "send_email", "ship")
PATIENCE = 20.0


class NotAsPromised(Exception):
    """Something happened that durable promises to prevent."""


@attrs.frozen
class Report:
    """A step that a process saw. `subject` is an activity, the order or the database; `step` is what it did."""

    at: float
    process: int
    subject: str
    step: str
    # The recorded entries, the open waits, or the lines of the receipt.
    names: list[str] = attrs.field(factory=list)


# --- the processes that run the workflow --------------------------------------------------------------------------


async def work(process: int, store: Path) -> None:
    """Open the engine, start or find the order, and wait for its end. All three processes run this code."""

    def tell(subject: str, step: str, *names: str) -> None:
        report = Report(time.time(), process, subject, step, list(names))
        os.write(sys.stdout.fileno(), f"{json.dumps(attrs.asdict(report))}\n".encode())

    outside.watcher = tell
    if process == 2:
        outside.slow["ship"] = 3600.0  # long enough to be killed in the middle of it
    tell("database", "opens")
    async with WorkflowEngine(store) as engine, anyio.create_task_group() as tasks:
        is_started = await engine.query_status(ORDER.id) is not None
        recorded = await engine.runs.history(ORDER.id) if is_started else []
        tell("history", "replayed", *(entry.name for entry in recorded))
        # The same call under the same id: the first process starts the order, the others find it.
        handle = await engine.start(checkout(ORDER), id=ORDER.id)
        if process == 2:
            tell("order", "waits", *await waits(engine))
            await engine.send_event(approval, Decision(ok=True, by="the sales desk"), to=ORDER.id)
            tell("approval", "arrives")
        tasks.start_soon(tell_waits, engine, tell)
        receipt = await handle.result(timeout=PATIENCE)
        tell("order", "finished", *receipt.text.splitlines(), receipt.parcel)
        recorded = await engine.runs.history(ORDER.id)
        tell("history", "complete", *(entry.name for entry in recorded if entry.status is EntryStatus.OK))
        tasks.cancel_scope.cancel()


async def tell_waits(engine: WorkflowEngine, tell: Callable[..., None]) -> None:
    """Report what the order waits for, whenever that changes."""
    last: list[str] = []
    while True:
        if (current := await waits(engine)) != last:
            last = current
            tell("order", "waits", *last)
        await anyio.sleep(0.01)


async def waits(engine: WorkflowEngine) -> list[str]:
    """What the order waits for now; a timer with its deadline."""
    description = await engine.runs.describe(ORDER.id)
    return [
        wait.name if wait.until is None else f"{wait.name} until {wait.until.timestamp()}" for wait in description.waits
    ]


# --- the process that watches, and kills ---------------------------------------------------------------------------


@attrs.define
class Timeline:
    """Prints reports as they arrive, and keeps them."""

    colours: bool
    began: float = attrs.field(factory=time.time)
    reports: list[Report] = attrs.field(factory=list)
    # When the approval is due, and whether the order has been seen asleep.
    deadline: str = ""
    is_asleep: bool = False

    def take(self, report: Report) -> None:
        """Print a report in words, if it is new."""
        self.reports.append(report)
        match report.subject, report.step:
            case "database", _:
                self.line(report, "", "opens the database")
            case "history", "replayed":
                for name in report.names:
                    kind = "the event" if name == "approval" else "its result"
                    self.line(report, name, f"not run: {kind} is replayed from history", "2")
            case "approval", _:
                self.line(report, "approval", "the event is sent and recorded")
            case "order", "waits":
                self.waits(report)
            case "order", "finished":
                self.line(report, "", f"{ORDER.id} has succeeded", "32")
            case name, "begins":
                again = self.count(name, "begins") > 1
                self.line(report, name, "begins again: no result was recorded" if again else "begins", "33" * again)
            case name, "answers":
                self.line(report, name, "done")
            case _:
                pass

    def waits(self, report: Report) -> None:
        """The order waits: for the approval, or for its own sleep."""
        timers = [name.partition(" until ")[2] for name in report.names if name.startswith("timer")]
        if "approval" in report.names:
            promise(self.deadline in ("", timers[0]), "the deadline of the approval has moved")
            still, self.deadline = "still waits" if self.deadline else "waits", timers[0]
            until = datetime.fromtimestamp(float(self.deadline), timezone.utc)
            self.line(report, "approval", f"{still}, until {until:%a %d %b %H:%M:%S} UTC at the latest")
        elif timers and not self.is_asleep:
            self.is_asleep = True
            self.line(report, "sleep", f"until {float(timers[0]) - self.began:.2f} s")

    def line(self, report: Report, name: str, text: str, colour: str = "") -> None:
        """Print an aligned line: the time, the process, the text."""
        words = f"{name:<16}{text}" if name else text
        self.show(f"{report.at - self.began:6.2f} s   process {report.process}   {words}", colour)

    def show(self, text: str = "", colour: str = "") -> None:
        """Print, in colour on a terminal."""
        print(f"\033[{colour}m{text}\033[0m" if colour and self.colours else text, flush=True)

    def count(self, subject: str, step: str) -> int:
        """How often a step was reported."""
        return sum((report.subject, report.step) == (subject, step) for report in self.reports)

    def last(self, subject: str, step: str) -> list[str]:
        """The names in the last report of a step."""
        matching = [report.names for report in self.reports if (report.subject, report.step) == (subject, step)]
        promise(bool(matching), f"no process reported: {subject} {step}")
        return matching[-1]


def promise(holds: bool, otherwise: str) -> None:
    """Raise `NotAsPromised` if a promise does not hold."""
    if not holds:
        raise NotAsPromised(otherwise)


@contextmanager
def process_running(number: int, store: Path) -> Iterator[tuple[subprocess.Popen[str], Iterator[Report]]]:
    """Run one of the three processes and read its reports. The process never outlives the block."""
    command = [sys.executable, "-m", "examples.checkout_demo", "--process", str(number), "--store", str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]) as process:
        assert process.stdout is not None
        alarm = threading.Timer(PATIENCE, process.kill)
        alarm.start()
        try:
            yield process, in_order(Report(**json.loads(line)) for line in process.stdout)
        finally:
            alarm.cancel()
            process.kill()


def in_order(reports: Iterator[Report]) -> Iterator[Report]:
    """Move the report of a replay before the reports of what ran because of it: a process can only ask afterwards."""
    held: list[Report] = []
    for report in reports:
        if report.step == "replayed":
            yield attrs.evolve(report, at=min([report.at, *(earlier.at for earlier in held)]))
            break
        if report.subject == "database":
            yield report
        else:
            held.append(report)
    yield from held
    yield from reports


def kill_when(timeline: Timeline, number: int, store: Path, is_time: Callable[[Report], bool], when: str) -> None:
    """Run a process until `is_time`, then kill it without warning."""
    with process_running(number, store) as (process, reports):
        for report in reports:
            timeline.take(report)
            if is_time(report):
                break
        else:
            raise NotAsPromised(f"process {number} ended by itself before it could be killed {when}")
        os.kill(process.pid, signal.SIGKILL)
        promise(process.wait() == -signal.SIGKILL, f"process {number} did not die from SIGKILL")
    timeline.line(Report(time.time(), number, "", ""), "", f"KILLED {when} (SIGKILL)", "31")


def waits_for(*names: str) -> Callable[[Report], bool]:
    """A test whether a report says that the order waits for exactly these names."""
    return lambda report: (
        report.step == "waits" and sorted(name.partition(" ")[0] for name in report.names) == sorted(names)
    )


def play(timeline: Timeline, store: Path) -> None:
    """Run all three processes, and kill two."""
    kill_when(timeline, 1, store, waits_for("approval", "timer"), "while the order waits")
    kill_when(timeline, 2, store, waits_for("ship"), "in the middle of ship")
    with process_running(3, store) as (process, reports):
        for report in reports:
            timeline.take(report)
        promise(process.wait() == 0, "process 3 failed; its message is above")


def judge(timeline: Timeline) -> None:
    """Compare what happened outside with what was recorded and what durable promises."""
    recorded = timeline.last("history", "complete")
    timeline.show(f"\n{'activity':<16}{'begun':>6}{'recorded':>10}")
    for name in ACTIVITIES:
        begun, entries = timeline.count(name, "begins"), recorded.count(name)
        verdict = "ran once" if begun == 1 else "ran again: process 2 died before its result was recorded"
        timeline.show(f"{name:<16}{begun:>6}{entries:>10}   {verdict}", "33" * (begun > 1))
        promise(entries == 1, f"{name} was recorded {entries} times")
        promise(begun == (2 if name == "ship" else 1), f"{name} was begun {begun} times")
    promise(recorded.count("approval") == 1, "the approval was not taken exactly once")
    for number, names in ((2, ["reserve_stock", "charge"]), (3, ["reserve_stock", "charge", "approval"])):
        replayed = [
            report.names for report in timeline.reports if (report.process, report.step) == (number, "replayed")
        ]
        promise(bool(replayed) and replayed[0][: len(names)] == names, f"process {number} replayed {replayed}")


def demo(keep: bool) -> int:
    """Run the demo in a temporary directory. The exit code is 0 if every promise held."""
    folder = Path(tempfile.mkdtemp(prefix="durable-demo-"))
    store = folder / "orders.db"
    timeline = Timeline(sys.stdout.isatty() and not os.environ.get("NO_COLOR"))
    timeline.show("One order, three processes, one SQLite file. Two of the processes will be killed.\n")
    try:
        play(timeline, store)
        judge(timeline)
        *receipt, parcel = timeline.last("order", "finished")
        timeline.show(f"\nThe receipt of {ORDER.id}\n")
        for text in (*receipt, parcel):
            timeline.show(f"    {text}")
    except NotAsPromised as broken:
        print(f"\nNot as promised: {broken}", file=sys.stderr)
        return 1
    finally:
        timeline.show(f"\nThe database: {store}" + ("" if keep else " (removed now; --keep keeps it)"))
        if not keep:
            shutil.rmtree(folder)
    return 0


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m examples.checkout_demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="keep the database and say where it is")
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.process is None:
        return demo(arguments.keep)
    anyio.run(work, arguments.process, arguments.store)
    return 0


if __name__ == "__main__":
    sys.exit(main())
