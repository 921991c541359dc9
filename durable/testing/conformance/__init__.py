"""What every store must do, as plain functions that raise `AssertionError`; for the author of a backend.

A check takes a factory that returns, each time it is called, a fresh handle on *one and the same* store, which is empty
when the check begins. With pytest:

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_conformance(check, tmp_path):
        check(lambda: MyBackend(tmp_path / "store"))

`FENCING_CHECKS` are for stores that let a second handle open while the first one is open. `SHARD_CHECKS` are for stores
with several shards; they take another factory (`shards`).
"""

from __future__ import annotations

from durable.testing.conformance import children, commits, events, pauses, schedules, shards, suspects, workflows
from durable.testing.conformance.kit import BackendFactory, Check
from durable.testing.conformance.shards import ShardFactory

CHECKS: tuple[Check, ...] = (
    *commits.CHECKS,
    *workflows.CHECKS,
    *events.CHECKS,
    *children.CHECKS,
    *pauses.CHECKS,
    *schedules.CHECKS,
    *suspects.CHECKS,
)
FENCING_CHECKS: tuple[Check, ...] = commits.FENCING_CHECKS

SHARD_CHECKS = shards.SHARD_CHECKS

__all__ = ["CHECKS", "FENCING_CHECKS", "SHARD_CHECKS", "BackendFactory", "Check", "ShardFactory"]
