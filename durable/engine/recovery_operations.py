"""Operations of the recovery that a start begins with; like those of `operations`."""

from __future__ import annotations

import attrs

from durable.engine.operations import Operation
from durable.engine.views import RecoveryReport


@attrs.frozen
class RecoverNext(Operation[None]):
    """Look over the next page of the recovery of this start."""


@attrs.frozen
class ReadRecovery(Operation[RecoveryReport]):
    """What the recovery of this start came to. No call is taken before it is over."""
