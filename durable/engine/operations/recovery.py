"""Operations of a start: load the running workflows page by page, before any call; and letters from other shards."""

from __future__ import annotations

import attrs

from durable.backends.base import StoredLetter
from durable.engine.operations.base import Operation
from durable.engine.operations.views import RecoveryReport


@attrs.frozen
class BeginAttempt(Operation[None]):
    """An activity of a workflow on trial has begun. If the process dies soon after, the workflow is to blame."""

    key: int


@attrs.frozen
class RecoverWorkflows(Operation[RecoveryReport]):
    """Recover one page of running and parked workflows; the answer says where the next page begins."""

    after: int = 0
    # The last key to recover. Workflows that start meanwhile run already, and must not make the recovery endless.
    until: int | None = None


@attrs.frozen
class RecoverNext(Operation[None]):
    """Recover the next page, in the recovery with which this engine started."""


@attrs.frozen
class ReadRecovery(Operation[RecoveryReport]):
    """The result of the recovery with which this engine started. No call is decided before that is over."""


@attrs.frozen
class ReadLetter(Operation[None]):
    """Handle one letter of the inbox."""

    letter: StoredLetter
