"""How a race is forced: which of the two comes first, and whether they share a commit."""

from __future__ import annotations

import pytest

# Both operations in one batch, or one batch for each.
TOGETHER = pytest.mark.parametrize("together", [True, False], ids=["one batch", "two batches"])
# An event to one workflow, or untargeted.
TO = pytest.mark.parametrize("to", ["w", None], ids=["targeted", "untargeted"])
