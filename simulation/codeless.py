"""Invariants of lives without the code: whatever has to run is set aside, nothing else happens to it, and the next life
that has the code goes on with it.

Asked like those of `rules`; what must be true of an idle engine is asked by `rest`.
"""

from __future__ import annotations

from durable.backends.base import Batch
from durable.model.records import ParkReason, WorkflowRecord, WorkflowStatus
from simulation.ledger import Ledger
from simulation.violation import Violation


def i25_nobody_is_set_aside(ledger: Ledger, batch: Batch, now: int) -> None:
    """Whatever the code does otherwise it says so, so nothing diverges and nothing is unreadable; it may be missing."""
    allowed = [ParkReason.CRASHED] if ledger.has_code else [ParkReason.CRASHED, ParkReason.UNKNOWN_CODE]
    for record in (*batch.workflows_new.values(), *batch.workflows_changed.values()):
        life = ledger.lives.get(record.key)
        is_news = life is None or life.record.park_reason is not record.park_reason
        if record.status is WorkflowStatus.PARKED and is_news and record.park_reason not in allowed:
            raise Violation("I25", f"{record.id} is parked: {record.park_reason} {record.park_detail}")


def i25_without_code_nobody_goes_on(ledger: Ledger, batch: Batch, now: int) -> None:
    """Nothing is learnt by whom nobody can run, and only the axe ends what has begun."""
    if ledger.has_code:
        return
    if batch.history or batch.restarted:
        raise Violation("I25", f"there is no code, and somebody learns {batch.history} {batch.restarted}")
    for key, record in batch.workflows_changed.items():
        life = ledger.lives[key]
        has_begun = life.seq > 0 or bool(life.waits) or life.record.round > 0
        if record.status.is_terminal and has_begun and record.id not in ledger.axed:
            raise Violation("I21", f"{record.id} ends {record.status.value}, and there is no code that could clean up")


def check_healed(record: WorkflowRecord) -> None:
    """The engine has the code and has looked over everything: nobody waits for code, or to hear of a cancel."""
    if record.park_reason is ParkReason.UNKNOWN_CODE:
        raise Violation("I25", f"{record.id} is parked for its code, which is there")
    if record.cancel_pending and record.park_reason is not ParkReason.CRASHED:
        raise Violation("I21", f"{record.id} was cancelled while its code was missing, and has not heard of it")
