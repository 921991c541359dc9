"""What differs between a workflow that is stored under an id and another call under the same id, in words."""

from __future__ import annotations

import json
from typing import Any

from durable.engine.operations import StartWorkflow
from durable.model.clock import SECOND
from durable.model.ids import digest
from durable.model.records import WorkflowRecord

# How much of a value is shown.
_WIDTH = 60


def difference(known: WorkflowRecord, op: StartWorkflow) -> str | None:
    """Why a start is not a repetition of the one that began a workflow; None if it is.

    Another version of the code is no difference: a run keeps the version that it started with.
    """
    if known.start_digest != digest(op.name, op.input):
        return _other_call(known, op)
    # Their order says nothing: that of a set is another one in every process.
    if set(known.tags) != set(op.tags):
        return f"tags={_brief(list(op.tags))}, but it was started with tags={_brief(list(known.tags))}"
    # A round that continued, or a child that its parent started again, has forgotten its first delay.
    delay = max(0, known.start_at - known.created_at)
    if known.round == 0 and delay != op.delay:
        return f"delay={op.delay / SECOND:g} s, but it was started with delay={delay / SECOND:g} s"
    return None


def _other_call(known: WorkflowRecord, op: StartWorkflow) -> str:
    if known.name != op.name:
        return f"this call is for {op.name!r} version {op.version}, it runs version {known.version}"
    if known.round:
        return "other arguments than those it was started with (it has continued with others since)"
    stored, given = _arguments(known.input), _arguments(op.input)
    parts = [
        f"{name}={_value(given, name)}, but it was started with {name}={_value(stored, name)}"
        for name in dict.fromkeys((*given, *stored))
        if name not in given or name not in stored or given[name] != stored[name]
    ]
    versions = "" if known.version == op.version else f" (version {op.version} against {known.version})"
    return ("; ".join(parts) or "other arguments") + versions


def _arguments(text: str) -> dict[str, Any]:
    """The arguments by name; none if what is stored is damaged."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _value(arguments: dict[str, Any], name: str) -> str:
    return _brief(arguments[name]) if name in arguments else "nothing"


def _brief(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
