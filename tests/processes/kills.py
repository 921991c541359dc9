"""A service that is killed with SIGKILL and restarted, and a witness that compares its acknowledgements with its store.

`kill_cycles` is one run of kills; call it with another seed and a fresh folder for more. It asserts after every kill
and returns figures. It knows nothing about how the service works: it reads the acknowledgements and the file.
"""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import attrs

from durable.model.position import place
from tests.processes.worker import expected

WORKER = Path(__file__).with_name("worker.py")
PER_LIFE = 1000


@attrs.frozen(kw_only=True)
class Figures:
    """The figures of one run of kill cycles."""

    kills: int = 0
    # The kills that hit a service which had recovered and accepted new work.
    kills_under_load: int = 0
    workflows: int = 0
    executions: int = 0
    starts: int = 0
    events: int = 0
    cancels: int = 0

    def __add__(self, other: Figures) -> Figures:
        return Figures(**{name: getattr(self, name) + getattr(other, name) for name in attrs.asdict(self)})


@attrs.define
class Witness:
    """Reads the files between two lives of the service."""

    folder: Path
    begun: set[int] = attrs.field(factory=set)
    started: set[str] = attrs.field(factory=set)
    nudged: set[str] = attrs.field(factory=set)
    cancelled: set[str] = attrs.field(factory=set)
    results: dict[int, int] = attrs.field(factory=dict)
    # Activities whose result was stored when the life began, and every workflow's round at that time.
    recorded: set[tuple[str, str]] = attrs.field(factory=set)
    rounds: dict[str, int] = attrs.field(factory=dict)
    executions: int = 0
    _read: dict[str, int] = attrs.field(factory=dict)

    def look(self) -> None:
        """Compare the acknowledgements of the last life with the store."""
        self._read_acks()
        executed = [(workflow, where) for workflow, where, _ in self._new_lines("trace")]
        self.executions += len(executed)
        assert not self.recorded.intersection(executed), "a recorded activity ran again"
        assert len(set(executed)) == len(executed), "an activity ran twice in one life"
        late = [run for run in executed if int(run[1].rpartition(":")[0] or 0) < self.rounds.get(run[0], 0)]
        assert not late, "an activity of a round that was over ran again"
        rows = {id: rest for id, *rest in self.rows("SELECT id, round, status, cancel_requested FROM workflow")}
        sent = {id.removeprefix("nudge ") for (id,) in self.rows("SELECT event_id FROM sent_event")}
        assert self.started <= rows.keys(), "an acknowledged start is lost"
        assert self.nudged <= sent, "an acknowledged event is lost"
        assert all(rows[id][2] for id in self.cancelled), "an acknowledged cancellation is lost"
        assert not self.rows("SELECT id, park_detail FROM workflow WHERE status = 'parked'")
        self.rounds = {id: round for id, (round, *_) in rows.items()}
        self.recorded.update(
            (id, place(round, position))
            for id, round, position in self.rows(
                "SELECT w.id, w.round, h.position FROM history h JOIN workflow w ON w.key = h.workflow"
                " WHERE h.kind = 'activity' AND h.status = 'ok'"
            )
        )

    def look_at_the_end(self) -> None:
        """All started work has ended with the right result, and the file is sound."""
        self.look()
        assert self.results == {number: expected(number) for number in self.begun}
        ends = dict(self.rows("SELECT id, status FROM workflow"))
        assert {id for id, status in ends.items() if status == "cancelled"} == self.cancelled
        assert {status for id, status in ends.items() if id not in self.cancelled} == {"succeeded"}
        assert self.rows("SELECT count(*) FROM event_wait") == [(0,)]
        assert self.rows("PRAGMA integrity_check") == [("ok",)]

    def pending(self) -> list[int]:
        """Started workflows whose result no client has received."""
        return sorted(self.begun - set(self.results))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of the store."""
        path = self.folder / "store.db"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return connection.execute(sql).fetchall()

    def _read_acks(self) -> None:
        acknowledged = {"start": self.started, "event": self.nudged, "cancel": self.cancelled}
        for kind, id, *rest in self._new_lines("acks"):
            if kind == "begin":
                self.begun.add(int(id[1:]))
            elif kind == "result":
                self.results[int(id[1:])] = int(rest[0])
            else:
                acknowledged[kind].add(id)

    def _new_lines(self, file: str) -> list[list[str]]:
        text = (self.folder / file).read_text()
        already, self._read[file] = self._read.get(file, 0), len(text)
        return [line.split() for line in text[already:].splitlines()]


@attrs.define
class Service:
    """The process that forks services."""

    process: subprocess.Popen[str]

    def live(self, **command: Any) -> dict[str, Any]:
        """Run one life; return how it ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def live_to_the_end(self, pending: list[int], last: int) -> None:
        """Run a life without a kill: finish pending work and everything new below `last`."""
        end = self.live(pending=pending, first=0, last=last, kill_after=None, early=False)
        assert end["status"] == 0


def kill_cycles(
    folder: Path, kills: int, seed: int, synchronous: Literal["FULL", "NORMAL"] = "FULL", *, cancels: int = 0
) -> Figures:
    """Kill a service this often, each time at a moment that the seed draws, and look at its store each time.

    A slow machine does less in each life: there the service is killed more often, until so many cancels were heard.
    """
    chance = random.Random(seed)
    witness = Witness(folder)
    arguments = [sys.executable, str(WORKER), str(folder), synchronous]
    under_load = 0
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        service = Service(process)
        service.live_to_the_end([], last=1)
        witness.look()
        life = 0
        while life < kills or len(witness.cancelled) < cancels:
            life += 1
            # Every tenth dies while it opens and recovers.
            early = chance.random() < 0.1
            end = service.live(
                pending=witness.pending(),
                first=life * PER_LIFE,
                last=(life + 1) * PER_LIFE,
                kill_after=chance.uniform(0, 0.03) if early else chance.uniform(0.005, 0.1),
                early=early,
            )
            assert end["status"] == -9
            under_load += end["ready"]
            witness.look()
        service.live_to_the_end(witness.pending(), last=0)
        witness.look_at_the_end()
    return Figures(
        kills=life,
        kills_under_load=under_load,
        workflows=len(witness.results),
        executions=witness.executions,
        starts=len(witness.started),
        events=len(witness.nudged),
        cancels=len(witness.cancelled),
    )
