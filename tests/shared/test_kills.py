"""Processes of one service: the one that owns the store is killed, or leaves, while the others are being called."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from durable import SyncWorkflowClient, WorkflowStatus
from tests.shared.flows import lines
from tests.shared.kit import Service, service

KILLS = 5
CROWD = 40


def finished(store: Path, ledger: Path, ids: set[str]) -> None:
    """Every order is there once and has succeeded, and each of its steps was recorded once."""
    with SyncWorkflowClient(store) as client:
        runs = client.runs.list(limit=1_000, name="shared.order")
        assert Counter(run.id for run in runs) == Counter(ids)
        assert {run.status for run in runs} == {WorkflowStatus.SUCCEEDED}
        assert all(len(client.runs.history(id)) == 2 for id in sorted(ids))
    assert len({key for key, _, _ in lines(ledger)}) == 2 * len(ids)


def ordered(workers: Service, ledger: Path, ids: list[str], *, but: Any = None) -> list[Future[Any]]:
    """Begin orders at every worker in turn."""
    asked = [worker for worker in workers.workers if worker is not but]
    return [asked[number % len(asked)].call("order", str(ledger), id) for number, id in enumerate(ids)]


def test_one_process_of_four_owns_the_store(tmp_path: Path) -> None:
    """All of them start at once; the activities of all orders run in one process."""
    store, ledger = tmp_path / "store.db", tmp_path / "ledger"
    with service(store, 4) as running:
        owner = running.owner()
        ids = [f"o-{number}" for number in range(CROWD)]
        assert [answer.result(30) for answer in ordered(running, ledger, ids)] == ids
        assert {process for _, _, process in lines(ledger)} == {str(owner.pid)}
        finished(store, ledger, set(ids))


def test_killed_owner_is_followed_within_two_seconds(tmp_path: Path) -> None:
    """A call that another process receives right after the kill is answered; so are those that were under way."""
    store, ledger = tmp_path / "store.db", tmp_path / "ledger"
    with service(store, 3) as running:
        owner = running.owner()
        early = [f"early-{number}" for number in range(CROWD)]
        answers = ordered(running, ledger, early, but=owner)
        owner.kill()
        running.workers.remove(owner)
        since = time.monotonic()
        assert running.workers[0].call("order", str(ledger), "late").result(30) == "late"
        assert time.monotonic() - since < 2
        assert [answer.result(30) for answer in answers] == early
        finished(store, ledger, {*early, "late"})


@pytest.mark.timeout(120)
def test_many_kills_in_a_row_lose_and_double_nothing(tmp_path: Path) -> None:
    """Each time under load, and with a new process in place of the dead one."""
    store, ledger = tmp_path / "store.db", tmp_path / "ledger"
    ids: list[str] = []
    with service(store, 3) as running:
        for kill in range(KILLS):
            owner = running.owner()
            batch = [f"o-{kill}-{number}" for number in range(CROWD)]
            answers = ordered(running, ledger, batch, but=owner)
            answers[kill * CROWD // KILLS].result(30)
            running.kill_owner()
            assert [answer.result(30) for answer in answers] == batch
            ids += batch
        finished(store, ledger, set(ids))


def test_events_under_a_kill_arrive_once(tmp_path: Path) -> None:
    """They have no id of their own: what makes a repeat count once is the request id."""
    store = tmp_path / "store.db"
    with service(store, 3) as running:
        owner = running.owner()
        asked = [worker for worker in running.workers if worker is not owner]
        answers = [asked[number % 2].call("send", number) for number in range(CROWD * 5)]
        answers[CROWD].result(30)
        owner.kill()
        running.workers.remove(owner)
        assert [answer.result(30) for answer in answers] == list(range(CROWD * 5))
        with SyncWorkflowClient(store) as client:
            payloads = [event.payload for event in client.events.list(limit=1_000)]
        assert sorted(payloads) == list(range(CROWD * 5))


def test_owner_that_leaves_in_order_hands_over(tmp_path: Path) -> None:
    """Orders that are under way while it leaves are finished, and others are accepted meanwhile."""
    store, ledger = tmp_path / "store.db", tmp_path / "ledger"
    with service(store, 3) as running:
        owner = running.owner()
        ids = [f"o-{number}" for number in range(CROWD)]
        answers = ordered(running, ledger, ids, but=owner)
        running.workers.remove(owner)
        owner.leave()
        late = [f"late-{number}" for number in range(CROWD)]
        answers += ordered(running, ledger, late)
        assert [answer.result(30) for answer in answers] == ids + late
        owner.close()
        finished(store, ledger, {*ids, *late})
