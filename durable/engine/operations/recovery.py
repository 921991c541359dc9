"""What comes before all calls: the workflows that were running, page by page, and letters from other shards."""

from __future__ import annotations

import attrs

from durable.backends.base import StoredLetter
from durable.engine.operations.base import Operation
from durable.engine.operations.views import RecoveryReport


@attrs.frozen
class BeginAttempt(Operation[None]):
    """An activity of a workflow on trial has begun: from now on it shows whether it takes the process down."""

    key: int


@attrs.frozen
class RecoverWorkflows(Operation[RecoveryReport]):
    """Look over a page of running and parked workflows; the answer says where the next page begins."""

    after: int = 0
    # The last key to look over: what starts meanwhile runs already, and must not make a recovery endless.
    until: int | None = None


@attrs.frozen
class RecoverNext(Operation[None]):
    """Look over the next page of the recovery of this start."""


@attrs.frozen
class ReadRecovery(Operation[RecoveryReport]):
    """What the recovery of this start came to. No call is taken before it is over."""


@attrs.frozen
class ReadLetter(Operation[None]):
    """Handle one letter of the inbox."""

    letter: StoredLetter
