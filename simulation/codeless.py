"""Invariants of lives without the code: a workflow that has to run is parked, and nothing else happens to it.

The next life with the code continues it: `rest` checks that in every idle engine. The others are rules like those of
`rules`.
"""

from __future__ import annotations

from durable.backends.base import Batch
from durable.model.records import ParkReason, WorkflowRecord, WorkflowStatus
from simulation.ledger import Ledger
from simulation.violation import Violation


def i25_nobody_is_set_aside(ledger: Ledger, batch: Batch, now: int) -> None:
    """Nothing is parked but for missing code or crashes: changed code announces its changes, so no replay diverges."""
    allowed = [ParkReason.CRASHED] if ledger.has_code else [ParkReason.CRASHED, ParkReason.UNKNOWN_CODE]
    for record in (*batch.workflows_new.values(), *batch.workflows_changed.values()):
        life = ledger.lives.get(record.key)
        is_news = life is None or life.record.park_reason is not record.park_reason
        if record.status is WorkflowStatus.PARKED and is_news and record.park_reason not in allowed:
            raise Violation("I25", f"{record.id} is parked: {record.park_reason} {record.park_detail}")


def i25_without_code_nobody_goes_on(ledger: Ledger, batch: Batch, now: int) -> None:
    """Without code no history grows, and only `terminate` ends a workflow that has begun."""
    if ledger.has_code:
        return
    if batch.history or batch.restarted:
        raise Violation("I25", f"there is no code, and histories change: {batch.history} {batch.restarted}")
    for key, record in batch.workflows_changed.items():
        life = ledger.lives[key]
        has_begun = life.seq > 0 or bool(life.waits) or life.record.round > 0
        if record.status.is_terminal and has_begun and record.id not in ledger.axed:
            raise Violation("I21", f"{record.id} ends {record.status.value}, and there is no code to clean up with")


def check_healed(record: WorkflowRecord) -> None:
    """With code and after recovery, no workflow is parked for missing code or has a cancel that was not raised."""
    if record.park_reason is ParkReason.UNKNOWN_CODE:
        raise Violation("I25", f"{record.id} is parked for missing code, and the code is there")
    if record.cancel_pending and record.park_reason is not ParkReason.CRASHED:
        raise Violation("I21", f"{record.id} was cancelled while its code was missing, and the cancel was never raised")
