"""`EngineConfig.retention`: ended workflows go by themselves, a page at a time; the others stay."""

from __future__ import annotations

from datetime import timedelta

from durable.backends.memory import MemoryStore
from durable.engine.config import EngineConfig
from durable.engine.operations import CountWorkflows, ExpireWorkflows, FindWorkflow, PurgeWorkflows, TerminateWorkflow
from tests.engine.desk import call_of
from tests.engine.flows import waiter
from tests.engine.office import Office
from tests.engine.test_coordinator import EVERY

DAY = timedelta(days=1)
CONFIG = EngineConfig(retention=DAY, sweep_every=60.0)


def ended(office: Office, *ids: str) -> None:
    """Workflows that have ended just now."""
    office.ask(*(call_of(waiter(), id) for id in ids))
    office.ask(*(TerminateWorkflow(id) for id in ids))


def left(office: Office) -> list[str]:
    """The ids that are still stored."""
    return [record.id for record in office.store.workflows.values()]


def settle(office: Office) -> int:
    """Work off everything; how many batches there were."""
    count = 1
    office.coordinator.work_off()
    while office.coordinator.has_work():
        office.coordinator.work_off()
        count += 1
    return count


def test_retention_removes_what_ended_long_ago() -> None:
    """At the next sweep after the retention an ended workflow goes; young, open and later ones stay."""
    office = Office(CONFIG)
    office.ask(call_of(waiter(), "open"))
    ended(office, "old")
    settle(office)
    office.clock.advance(DAY / 2)
    ended(office, "young")
    settle(office)
    assert left(office) == ["open", "old", "young"]
    office.clock.advance(DAY / 2 + timedelta(seconds=60))
    settle(office)
    assert left(office) == ["open", "young"]


def test_retention_is_off_unless_asked_for() -> None:
    """Without the option nothing ever goes by itself."""
    office = Office(EngineConfig(retention=None))
    ended(office, "old")
    office.clock.advance(1000 * DAY)
    settle(office)
    office.coordinator.process([ExpireWorkflows()])
    assert left(office) == ["old"]


def test_retention_works_in_small_batches() -> None:
    """Hundreds of old workflows go in pages with commits of their own, so that a caller waits for one page at most."""
    office = Office(CONFIG)
    ended(office, *map(str, range(230)))
    office.clock.advance(2 * DAY)
    before = office.backend.commits
    while len(left(office)) == 230:
        office.coordinator.work_off()
    assert left(office)
    settle(office)
    assert left(office) == []
    assert office.backend.commits - before >= 230 // 50


def test_retention_leaves_long_sleepers_alone_and_goes_past_them() -> None:
    """Old open workflows are passed over a bounded number of pages a sweep, and the next sweep continues there."""
    office = Office(CONFIG, MemoryStore())
    office.ask(*(call_of(waiter(), f"open {number}") for number in range(3000)))
    ended(office, "old")
    office.clock.advance(2 * DAY)
    assert settle(office) <= 60
    assert "old" in left(office)
    office.clock.advance(60)
    settle(office)
    assert "old" not in left(office)
    assert len(left(office)) == 3000


def test_retention_reads_no_further_than_young_workflows() -> None:
    """What was started later than the retention cannot have ended before it: the pass ends there."""
    office = Office(CONFIG)
    ended(office, "old")
    office.clock.advance(2 * DAY)
    office.ask(*(call_of(waiter(), f"young {number}") for number in range(500)))
    before = office.backend.calls
    settle(office)
    assert "old" not in left(office)
    assert office.backend.calls - before < 12


def test_retention_and_purge_in_one_batch_count_once() -> None:
    """A workflow that a sweep removes is not counted again by a purge that is decided with it."""
    office = Office(CONFIG)
    ended(office, "old")
    settle(office)
    office.clock.advance(2 * DAY)
    purge = office.letter(PurgeWorkflows(office.clock.now()))
    found = office.letter(FindWorkflow("old"))
    office.coordinator.process([ExpireWorkflows(), purge, found])
    assert (purge.reply, found.reply) == (0, None)
    (count,) = office.ask(CountWorkflows(EVERY))
    assert count.reply == 0
