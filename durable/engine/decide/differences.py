"""Says in words how a start differs from the workflow that is already stored under its id.

Starting is idempotent: the same call under the same id finds the first workflow. A different call is refused, and the
error tells the caller which argument, tag or delay is different.
"""

from __future__ import annotations

import json
from typing import Any

from durable.engine.operations import StartWorkflow
from durable.model.clock import SECOND
from durable.model.ids import digest
from durable.model.records import WorkflowRecord

# The longest value that is shown in full.
_WIDTH = 60


def difference(stored: WorkflowRecord, op: StartWorkflow) -> str | None:
    """How a start differs from the one that created a workflow; None if it is the same call.

    A different version of the code is not a difference: a workflow keeps the version that it started with.
    """
    if stored.start_digest != digest(op.name, op.input):
        return _other_call(stored, op)
    # Order does not count: the tags may come from a set, whose order changes from process to process.
    if set(stored.tags) != set(op.tags):
        return f"tags={_brief(list(op.tags))}, but it was started with tags={_brief(list(stored.tags))}"
    # A later round, or a child that was started again with its parent, no longer knows its first delay.
    delay = max(0, stored.start_at - stored.created_at)
    if stored.round == 0 and delay != op.delay:
        return f"delay={op.delay / SECOND:g} s, but it was started with delay={delay / SECOND:g} s"
    return None


def _other_call(stored: WorkflowRecord, op: StartWorkflow) -> str:
    if stored.name != op.name:
        return f"this call is for {op.name!r} version {op.version}, it runs version {stored.version}"
    if stored.round:
        return "other arguments than those it was started with (it has continued with others since)"
    first, second = _arguments(stored.input), _arguments(op.input)
    parts = [
        f"{name}={_value(second, name)}, but it was started with {name}={_value(first, name)}"
        for name in dict.fromkeys((*second, *first))
        if name not in second or name not in first or second[name] != first[name]
    ]
    versions = "" if stored.version == op.version else f" (version {op.version} against {stored.version})"
    return ("; ".join(parts) or "other arguments") + versions


def _arguments(text: str) -> dict[str, Any]:
    """The arguments by name; empty if the stored text is damaged."""
    try:
        arguments = json.loads(text)
    except ValueError:
        return {}
    return arguments if isinstance(arguments, dict) else {}


def _value(arguments: dict[str, Any], name: str) -> str:
    return _brief(arguments[name]) if name in arguments else "nothing"


def _brief(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
