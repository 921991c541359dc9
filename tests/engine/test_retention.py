"""`EngineConfig.retention`: ended workflows are removed automatically, a page at a time; the others stay."""

from __future__ import annotations

from datetime import timedelta

from durable.backends.memory import MemoryStore
from durable.engine.config import EngineConfig
from durable.engine.operations import CountWorkflows, ExpireWorkflows, FindWorkflow, PurgeWorkflows, TerminateWorkflow
from tests.engine.direct import call_of
from tests.engine.flows import waiter
from tests.engine.stepped import SteppedEngine
from tests.engine.test_coordinator import EVERY

DAY = timedelta(days=1)
CONFIG = EngineConfig(retention=DAY, sweep_every=60.0)


def ended(stepped: SteppedEngine, *ids: str) -> None:
    """Workflows that have just ended."""
    stepped.ask(*(call_of(waiter(), id) for id in ids))
    stepped.ask(*(TerminateWorkflow(id) for id in ids))


def left(stepped: SteppedEngine) -> list[str]:
    """The ids that are still stored."""
    return [record.id for record in stepped.store.workflows.values()]


def settle(stepped: SteppedEngine) -> int:
    """Process everything that is queued or due. Returns the number of batches."""
    count = 1
    stepped.coordinator.work_off()
    while stepped.coordinator.has_work():
        stepped.coordinator.work_off()
        count += 1
    return count


def test_retention_removes_what_ended_long_ago() -> None:
    """The first sweep after the retention removes an ended workflow. Younger and open workflows stay."""
    stepped = SteppedEngine(CONFIG)
    stepped.ask(call_of(waiter(), "open"))
    ended(stepped, "old")
    settle(stepped)
    stepped.clock.advance(DAY / 2)
    ended(stepped, "young")
    settle(stepped)
    assert left(stepped) == ["open", "old", "young"]
    stepped.clock.advance(DAY / 2 + timedelta(seconds=60))
    settle(stepped)
    assert left(stepped) == ["open", "young"]


def test_retention_is_off_unless_asked_for() -> None:
    """Without the option, nothing is ever removed automatically."""
    stepped = SteppedEngine(EngineConfig(retention=None))
    ended(stepped, "old")
    stepped.clock.advance(1000 * DAY)
    settle(stepped)
    stepped.coordinator.process([ExpireWorkflows()])
    assert left(stepped) == ["old"]


def test_retention_works_in_small_batches() -> None:
    """Hundreds of old workflows are removed in pages, each its own commit, so a caller waits for one page at most."""
    stepped = SteppedEngine(CONFIG)
    ended(stepped, *map(str, range(230)))
    stepped.clock.advance(2 * DAY)
    before = stepped.backend.commits
    while len(left(stepped)) == 230:
        stepped.coordinator.work_off()
    assert left(stepped)
    settle(stepped)
    assert left(stepped) == []
    assert stepped.backend.commits - before >= 230 // 50


def test_retention_skips_old_open_workflows() -> None:
    """A sweep skips a limited number of pages of old open workflows, and the next sweep continues there."""
    stepped = SteppedEngine(CONFIG, MemoryStore())
    stepped.ask(*(call_of(waiter(), f"open {number}") for number in range(3000)))
    ended(stepped, "old")
    stepped.clock.advance(2 * DAY)
    assert settle(stepped) <= 60
    assert "old" in left(stepped)
    stepped.clock.advance(60)
    settle(stepped)
    assert "old" not in left(stepped)
    assert len(left(stepped)) == 3000


def test_retention_reads_no_further_than_young_workflows() -> None:
    """A sweep stops at the first young workflow, because nothing after it can have ended before the retention."""
    stepped = SteppedEngine(CONFIG)
    ended(stepped, "old")
    stepped.clock.advance(2 * DAY)
    stepped.ask(*(call_of(waiter(), f"young {number}") for number in range(500)))
    before = stepped.backend.calls
    settle(stepped)
    assert "old" not in left(stepped)
    assert stepped.backend.calls - before < 12


def test_retention_and_purge_in_one_batch_count_once() -> None:
    """A workflow that a sweep removes is not counted again by a purge in the same batch."""
    stepped = SteppedEngine(CONFIG)
    ended(stepped, "old")
    settle(stepped)
    stepped.clock.advance(2 * DAY)
    purge = stepped.letter(PurgeWorkflows(stepped.clock.now()))
    lookup = stepped.letter(FindWorkflow("old"))
    stepped.coordinator.process([ExpireWorkflows(), purge, lookup])
    assert (purge.reply, lookup.reply) == (0, None)
    (count,) = stepped.ask(CountWorkflows(EVERY))
    assert count.reply == 0
