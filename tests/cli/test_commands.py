"""The commands, typed against a service that runs in another process, and against its file once it has stopped."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from durable.backends.sqlite.reader import StoreReader
from durable.cli import quick
from durable.cli.client import open_client
from durable.cli.filters import parse_filters
from durable.cli.runs import count, matching, now
from tests.cli.kit import Ran, run
from tests.cli.service import Worker, service

Shell = Callable[..., Ran]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Worker]]:
    """A service on `orders.db`."""
    store = tmp_path_factory.mktemp("commands") / "orders.db"
    with service(store) as worker:
        yield store, worker


@pytest.fixture
def shell(running: tuple[Path, Worker], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Types a command against the store of the service."""
    monkeypatch.setenv("DURABLE_STORE", str(running[0]))
    return lambda *words: run(capsys, *words)


def objects(ran: Ran) -> list[dict[str, Any]]:
    """The objects of JSON lines."""
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


def test_run_is_started_shown_and_ended(shell: Shell) -> None:
    """A run is started by name, found by its tag, fed with an event, and its result is JSON."""
    words = ["start", "cli-checkout", "--id", "order-1", "-P", "order=o1", "--tag", "eu"]
    assert shell(*words) == Ran(0, "order-1\n", "")
    assert shell(*words) == Ran(0, "order-1\n", "")
    assert shell("result", "order-1", "--wait", "0.2").code == 124
    assert [run["id"] for run in objects(shell("ps", "tag:eu", "-o", "jsonl"))] == ["order-1"]
    shown = shell("show", "order-1").out
    assert "attempt 1 failed" in shown
    assert "durable send approval --to order-1" in shown
    assert shell("send", "approval", "--to", "order-1", "-P", "by=ann").out == "delivered to order-1\n"
    assert shell("result", "order-1", "--wait", "10") == Ran(0, '"ann"\n', "")
    whole = json.loads(shell("show", "order-1", "-o", "json").out)
    assert (whole["id"], whole["name"], whole["status"]) == ("order-1", "cli-checkout", "succeeded")
    assert [entry["status"] for entry in whole["history"]].count("retry") == 2


def test_wrong_start_is_refused(shell: Shell) -> None:
    """An unknown workflow is not found; wrong arguments, and arguments without names, are wrong use."""
    assert shell("start", "cli-nothing").code == 4
    assert shell("start", "cli-checkout", "-P", "order:=3").code == 2
    assert shell("start", "cli-checkout", "--input", "[1]").code == 2
    shell("start", "cli-nap", "--id", "taken", "-P", "seconds:=3600")
    ran = shell("start", "cli-nap", "--id", "taken", "-P", "seconds:=1")
    assert (ran.code, "already exists" in ran.err) == (1, True)


def test_event_under_an_unknown_name_is_refused(shell: Shell) -> None:
    """A misspelt name is not found, and the right one is named; a payload of another type is wrong use."""
    ran = shell("send", "aproval", "-P", "by=ann")
    assert (ran.code, "did you mean 'approval'?" in ran.err) == (4, True)
    assert shell("send", "approval", "--input", "3").code == 2
    assert shell("send", "aproval", "--key", "forced", "--force").code == 0
    (event,) = objects(shell("events", "--name", "aproval", "-o", "jsonl"))
    assert event["key"] == "forced"
    assert shell("events", "remove", str(event["id"])).code == 0


def test_question_is_listed_and_answered(shell: Shell) -> None:
    """A question is listed with the type of its answer; a wrong answer is refused and the question stays."""
    shell("start", "cli-question", "--id", "ask", "-P", "order=o2")
    (pause,) = objects(shell("pauses", "--run", "ask", "-o", "jsonl"))
    assert (pause["id"], pause["pause_id"], pause["expects"]) == ("ask", "0", "bool")
    assert shell("resume", "ask", "0").code == 2
    assert shell("resume", "ask", "0", "--input", "3").code == 2
    assert shell("resume", "ask", "7", "--input", "true").code == 4
    assert shell("resume", "ask", "0", "--input", "true").code == 0
    assert shell("resume", "ask", "0", "--input", "false").code == 1
    assert shell("result", "ask").out == "true\n"


def test_failed_run_is_repaired_forked_and_retried(shell: Shell) -> None:
    """A failed run has its error and code 6; it can be retried, forked and repaired, each with its refusals."""
    shell("start", "cli-delivery", "--id", "late", "-P", "order=o3")
    ran = shell("result", "late")
    assert (ran.code, "no warehouse has o3" in ran.err) == (6, True)
    assert shell("retry", "late").out == "late: continues\n"
    assert shell("result", "late").code == 6
    assert shell("fork", "late", "0", "--new-id", "late-again").out == "late-again\n"
    assert shell("repair", "late", "0", "--input", "3", "--reason", "by phone").code == 2
    assert shell("repair", "late", "0", "--input", '"sent"', "--reason", "by phone").code == 0
    assert shell("retry", "late", "-o", "ids").out == "late\n"
    assert shell("result", "late").out == '"sent"\n'
    assert shell("retry", "late").code == 1
    kinds = [entry["kind"] for entry in objects(shell("history", "late", "-o", "jsonl"))]
    assert "repaired" in kinds


def test_many_runs_need_a_yes(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one run needs `--yes` where nobody can answer. Ids come from words, from stdin or from a filter."""
    for number in range(5):
        shell("start", "cli-nap", "--id", f"many-{number}", "--tag", "many")
    ran = shell("cancel", "many-0", "many-1")
    assert (ran.code, "2 runs (many-0, many-1)" in ran.err) == (2, True)
    monkeypatch.setattr("sys.stdin", io.StringIO("many-0\nmany-1\n"))
    ran = shell("cancel", "--yes", "--reason", "tidy", "-")
    assert ran.out == "many-0: asked to end\nmany-1: asked to end\n"
    rows = json.loads(shell("terminate", "--where", "tag:many", "--yes", "-o", "json").out)
    assert {row["id"]: row["outcome"] for row in rows} == {
        "many-0": "had ended already", "many-1": "had ended already",
        "many-2": "ended", "many-3": "ended", "many-4": "ended",
    }  # fmt: skip
    assert {run["status"] for run in objects(shell("ps", "tag:many", "-o", "jsonl"))} == {"cancelled"}
    assert shell("result", "many-0").code == 7
    assert shell("cancel", "many-2", "nobody", "--yes").code == 4
    assert shell("cancel").code == 2
    assert shell("cancel", "a", "--where", "tag:many").code == 2
    assert shell("cancel", "--where", "tag:none", "--yes") == Ran(0, "", "no run matches; nothing was changed\n")


def test_events_and_dead_letters_are_listed(shell: Shell) -> None:
    """An event that nobody takes is listed and removed; one that its run left is a dead letter, which is sent again."""
    assert shell("send", "price", "--force", "--input", "42").out.startswith("queued")
    (event,) = objects(shell("events", "--name", "price", "-o", "jsonl"))
    assert (event["name"], event["payload"], event["status"]) == ("price", 42, "pending")
    assert shell("events", "remove", str(event["id"])).code == 0
    assert shell("events", "remove", str(event["id"])).code == 4
    shell("start", "cli-nap", "--id", "mailbox")
    shell("send", "price", "--force", "--to", "mailbox", "--input", "1")
    shell("terminate", "mailbox")
    (letter,) = objects(shell("dead-letters", "-o", "jsonl"))
    assert (letter["workflow_id"], letter["reason"]) == ("mailbox", "workflow ended")
    shell("start", "cli-nap", "--id", "mailbox-2")
    assert shell("dead-letters", "replay", str(letter["id"]), "--to", "mailbox-2").out.startswith("queued")
    assert shell("dead-letters", "remove", str(letter["id"])).code == 4
    assert shell("send", "price", "--force", "--to", "mailbox", "--input", "1").code == 1


def test_schedule_lives_its_life(shell: Shell) -> None:
    """A schedule is created by name, listed, paused, triggered, continued and deleted."""
    words = ["schedules", "create", "nightly", "cli-nap", "--cron", "0 3 * * *", "-P", "seconds:=0"]
    assert shell(*words).code == 0
    assert shell(*words, "--timezone", "Europe/Berlin").code == 1
    assert shell(*words, "--timezone", "Europe/Berlin", "--replace").code == 0
    (schedule,) = objects(shell("schedules", "-o", "jsonl"))
    assert (schedule["id"], schedule["name"], schedule["status"]) == ("nightly", "nightly", "active")
    assert "0 3 * * * Europe/Berlin" in shell("schedules").out
    assert shell("schedules", "pause", "nightly").code == 0
    assert objects(shell("schedules", "-o", "jsonl"))[0]["status"] == "paused"
    assert shell("schedules", "resume", "nightly").code == 0
    assert shell("schedules", "trigger", "nightly", "--id", "by-hand").out == "by-hand\n"
    assert shell("result", "by-hand").out == '"rested"\n'
    assert shell("schedules", "delete", "nightly", "--yes").code == 0
    assert shell("schedules", "delete", "nightly", "--yes").code == 4
    assert shell("schedules", "create", "often", "cli-nap", "--every", "15m", "-o", "x").code == 2
    assert shell("schedules", "create", "often", "cli-nap", "--every", "15m", "--cron", "* * * * *").code == 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["show", "nobody"], 4),
        (["history", "nobody"], 4),
        (["result", "nobody"], 4),
        (["tail", "nobody"], 4),
        (["send", "approval", "--to", "nobody", "-P", "by=ann"], 4),
        (["fork", "nobody", "0"], 4),
        (["schedules", "pause", "nobody"], 4),
        (["ps", "status:stuck"], 2),
        (["top", "status:failed"], 2),
        (["tail", "a", "--where", "tag:b"], 2),
        (["purge", "--older-than", "soon"], 2),
        (["purge", "--older-than", "30d"], 2),
        (["start", "cli-nap", "--delay", "soon"], 2),
    ],
)
def test_mistakes_have_their_codes(shell: Shell, words: list[str], code: int) -> None:
    """Whatever is not there is 4, and whatever is written wrongly is 2; each is one sentence."""
    ran = shell(*words)
    assert (ran.code, ran.out) == (code, "")
    assert "Traceback" not in ran.err


def test_tail_follows_a_run_to_its_end(shell: Shell) -> None:
    """The record of a run comes line by line, and its end ends the command."""
    shell("start", "cli-nap", "--id", "short", "-P", "seconds:=0.5")
    lines = objects(shell("tail", "short", "-o", "jsonl", "--interval", "0.1"))
    assert {line["id"] for line in lines} == {"short"}
    assert [line["status"] for line in lines if line["status"]][-1] == "succeeded"
    assert any("timer" in line["what"] for line in lines)
    shell("start", "cli-nap", "--id", "long")
    assert "suspended" in shell("tail", "--once", "--where", "name:cli-nap").out


def test_top_and_watch_draw_in_a_pipe(shell: Shell) -> None:
    """What is drawn again on a terminal is written one after the other in a pipe."""
    shell("start", "cli-nap", "--id", "watched", "-P", "seconds:=0.5")
    drawn = shell("top", "--once").out
    assert "suspended" in drawn
    assert "succeeded" in drawn
    assert "SUCCEEDED" in shell("show", "watched", "--watch", "--interval", "0.2").out


def test_list_from_the_file_is_the_list_of_the_engine(running: tuple[Path, Worker], shell: Shell) -> None:
    """`ps` reads the file beside the engine, and shows what the engine would answer, whatever the filter is."""
    shell("start", "cli-nap", "--id", "same-1", "--tag", "eu")
    shell("start", "cli-question", "--id", "same-2", "-P", "order=o1")
    store = str(running[0])
    with StoreReader(store) as reader, open_client(store) as client:
        for words in ([], ["status:suspended"], ["name:cli-nap"], ["tag:eu"], ["since:1h"], ["id:many-"], ["until:1h"]):
            filters = parse_filters(words, now())
            assert list(quick.matching(reader, filters, None)) == list(matching(client, filters))
            assert quick.count(reader, filters) == count(client, filters)
            assert list(quick.matching(reader, filters, 2)) == list(matching(client, filters, 2))
    assert shell("ps", "--count", "id:same-").out == "2\n"


def test_stuck_service_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While an engine does not answer, lists still work, a change ends with 5, and the doctor says so."""
    monkeypatch.setattr("durable.cli.client._TIMEOUT", 1)
    store = tmp_path / "stuck.db"
    with service(store) as worker:
        run(capsys, "--store", store, "start", "cli-nap", "--id", "nap")
        worker.process.send_signal(signal.SIGSTOP)
        assert run(capsys, "--store", store, "ps", "-o", "ids").out == "nap\n"
        ran = run(capsys, "--store", store, "cancel", "nap")
        assert (ran.code, "did not answer within" in ran.err) == (5, True)
        ran = run(capsys, "--store", store, "doctor")
        assert (ran.code, "has not answered within 3 s" in ran.out) == (1, True)


def test_stopped_service_is_reported_and_starts_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an engine, lists work, starts and events are kept for the next one, and everything else ends with 5."""
    store = tmp_path / "stopped.db"
    with service(store) as worker:
        run(capsys, "--store", store, "start", "cli-nap", "--id", "nap")
        assert worker.end() == 0
    assert "suspended" in run(capsys, "--store", store, "ps").out
    ran = run(capsys, "--store", store, "start", "cli-nap", "--id", "kept", "-P", "seconds:=0.1")
    assert (ran.code, ran.out, "no engine runs" in ran.err) == (0, "kept\n", True)
    assert "kept for the next engine" in run(capsys, "--store", store, "ps").out
    for words in (["cancel", "nap", "kept", "--yes"], ["resume", "nap", "0", "--input", "1"], ["retry", "nap"]):
        ran = run(capsys, "--store", store, *words)
        assert (ran.code, ran.err.count("no engine has it open")) == (5, 1)
    assert run(capsys, "--store", store, "doctor").code == 1
    with service(store):
        assert run(capsys, "--store", store, "result", "kept", "--wait", "10").out == '"rested"\n'
        assert run(capsys, "--store", store, "doctor").code == 0
