"""Whether the code at hand fits workflows that are under way, as a value that a test can look at.

Pure: histories go in, a report comes out. Where they come from is the business of `export_histories` (a store file) and
`load_histories` (JSON files in a repository).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from durable.errors import WrongType
from durable.model.codec import Codec
from durable.model.records import WorkflowHistory
from durable.model.registry import Registry
from durable.runner.definitions import REGISTRY, WorkflowDef
from durable.runner.replaying import ReplayResult, replay


@attrs.frozen
class ReplayReport:
    """What came of the replay of some histories. Its text is for people: `assert report.ok, report`."""

    results: tuple[ReplayResult, ...]

    @property
    def ok(self) -> bool:
        """Whether the code stops or ends none of them."""
        return not self.bad

    @property
    def bad(self) -> tuple[ReplayResult, ...]:
        """Those that would be parked, and those that would fail."""
        return tuple(result for result in self.results if result.is_bad)

    def __str__(self) -> str:
        head = f"{len(self.results):,} workflows replayed, {len(self.bad):,} do not fit this code"
        return "\n".join([head, *map(str, self.bad)])


def check_replay(
    histories: Iterable[WorkflowHistory],
    workflows: Iterable[WorkflowDef[..., Any]] | None = None,
    *,
    codec: Codec | None = None,
) -> ReplayReport:
    """Replay histories against workflows (all that were imported, if not given) and say which would be parked.

    Give the `codec` that the engine has, if it is not the usual one.
    """
    known = list(REGISTRY if workflows is None else workflows)
    for one in known:
        if not isinstance(one, WorkflowDef):
            raise WrongType("check_replay: workflows", f"takes @workflow functions, not {one!r:.200}")
    registry = Registry[WorkflowDef[Any, Any]](known)
    coding = codec or Codec()
    return ReplayReport(tuple(replay(history, registry, coding) for history in histories))
