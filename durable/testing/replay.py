"""Whether the current code fits the workflows that are running: `check_replay`, for tests.

Pure: histories go in, a report comes out. `export_histories` reads histories from a store file, `load_histories` from
JSON files in a repository.
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
    """The results of replaying histories. `str(report)` is for people: `assert report.ok, report`."""

    results: tuple[ReplayResult, ...]

    @property
    def ok(self) -> bool:
        """Whether the code would park or fail none of them."""
        return not self.bad

    @property
    def bad(self) -> tuple[ReplayResult, ...]:
        """The workflows that would be parked, and those that would fail."""
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
    """Replay histories against `workflows`, by default all that were imported, and report which would be parked.

    Pass the engine's `codec` if it has a special one. Raises `WrongType` for something that is not a workflow.
    """
    definitions = list(REGISTRY if workflows is None else workflows)
    for definition in definitions:
        if not isinstance(definition, WorkflowDef):
            raise WrongType("check_replay: workflows", f"takes @workflow functions, not {definition!r:.200}")
    registry = Registry[WorkflowDef[Any, Any]](definitions)
    chosen_codec = codec or Codec()
    return ReplayReport(tuple(replay(history, registry, chosen_codec) for history in histories))
