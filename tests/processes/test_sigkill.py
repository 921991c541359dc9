"""Killed with SIGKILL at any point, 200 times over: nothing acknowledged is lost, nothing recorded runs again."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.processes.worker import expected

WORKER = Path(__file__).with_name("worker.py")
KILLS = 100
PER_LIFE = 1000


@attrs.define
class Witness:
    """Looks at the files between two lives of the service."""

    folder: Path
    begun: set[int] = attrs.field(factory=set)
    started: set[str] = attrs.field(factory=set)
    nudged: set[str] = attrs.field(factory=set)
    results: dict[int, int] = attrs.field(factory=dict)
    # Activities whose result was stored when the life began.
    recorded: set[tuple[str, str]] = attrs.field(factory=set)
    executions: int = 0
    _acks_read: int = 0
    _trace_read: int = 0

    def look(self) -> None:
        """Compare what the service said in its last life with what is stored."""
        self._read_acks()
        executed = self._new_lines("trace")
        self.executions += len(executed)
        places = [(workflow, position) for workflow, position, _ in executed]
        assert not self.recorded.intersection(places), "a recorded activity ran again"
        assert len(set(places)) == len(places), "an activity ran twice in one life"
        stored = {id for (id,) in self.rows("SELECT id FROM workflow")}
        sent = {id.removeprefix("nudge ") for (id,) in self.rows("SELECT event_id FROM sent_event")}
        assert self.started <= stored, "an acknowledged start is lost"
        assert self.nudged <= sent, "an acknowledged event is lost"
        assert not self.rows("SELECT id, park_detail FROM workflow WHERE status = 'parked'")
        self.recorded.update(
            self.rows(
                "SELECT w.id, h.position FROM history h JOIN workflow w ON w.key = h.workflow"
                " WHERE h.kind = 'activity' AND h.status = 'ok'"
            )
        )

    def pending(self) -> list[int]:
        """What was begun and whose result nobody has heard."""
        return sorted(self.begun - set(self.results))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of the store; none before it was made."""
        path = self.folder / "store.db"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return connection.execute(sql).fetchall()

    def _read_acks(self) -> None:
        for what, id, *rest in self._new_lines("acks"):
            if what == "begin":
                self.begun.add(int(id[1:]))
            elif what == "result":
                self.results[int(id[1:])] = int(rest[0])
            else:
                (self.started if what == "start" else self.nudged).add(id)

    def _new_lines(self, file: str) -> list[list[str]]:
        already = self._acks_read if file == "acks" else self._trace_read
        text = (self.folder / file).read_text()
        if file == "acks":
            self._acks_read = len(text)
        else:
            self._trace_read = len(text)
        return [line.split() for line in text[already:].splitlines()]


@attrs.define
class Service:
    """The process that forks services."""

    process: subprocess.Popen[str]

    def live(self, **command: Any) -> dict[str, Any]:
        """One life; how it ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [1, 2])
def test_service_survives_every_kill(tmp_path: Path, seed: int) -> None:
    """After a hundred kills every workflow ends with the right result, and each activity's result was used once."""
    chance = random.Random(seed)
    witness = Witness(tmp_path)
    arguments = [sys.executable, str(WORKER), str(tmp_path)]
    ready = 0
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        service = Service(process)
        assert service.live(pending=[], first=0, last=1, kill_after=None, early=False)["status"] == 0
        witness.look()
        for life in range(1, KILLS + 1):
            early = chance.random() < 0.1
            end = service.live(
                pending=witness.pending(),
                first=life * PER_LIFE,
                last=(life + 1) * PER_LIFE,
                kill_after=chance.uniform(0, 0.03) if early else chance.uniform(0.005, 0.15),
                early=early,
            )
            assert end["status"] == -9
            ready += end["ready"]
            witness.look()
        end = service.live(pending=witness.pending(), first=0, last=0, kill_after=None, early=False)
        assert end["status"] == 0
        witness.look()
    assert ready > KILLS / 2
    assert witness.results == {number: expected(number) for number in witness.begun}
    assert len(witness.begun) > KILLS
    assert set(witness.rows("SELECT status FROM workflow")) == {("succeeded",)}
