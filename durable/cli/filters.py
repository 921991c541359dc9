"""Filters for runs: `status:parked name:checkout tag:eu since:2h id:order-`. Pure; the present time is an argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from typing import Any

import attrs

from durable.cli.words import parse_moment, parse_status
from durable.model.statuses import WorkflowStatus

EXAMPLES = "status:parked,failed name:checkout tag:eu since:2h until:2026-03-01 id:order- parent:batch-7"


@attrs.frozen(kw_only=True)
class Filters:
    """Which runs are meant. A filter that is None, or a status list that is empty, matches every run."""

    status: tuple[WorkflowStatus, ...] = ()
    name: str | None = None
    tag: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    id_prefix: str | None = None
    parent: str | None = None

    def arguments(self) -> dict[str, Any]:
        """The filters as keyword arguments of `runs.list`, `runs.scan` and `runs.count`."""
        return {name: value for name, value in attrs.asdict(self).items() if value not in (None, ())}


def parse_filters(words: Sequence[str], now: datetime, zone: tzinfo | None = None) -> Filters:
    """The filters that these words say. Raises `ValueError`, with a sentence that shows how to write it."""
    changes: dict[str, Any] = {}
    for word in words:
        key, colon, value = word.partition(":")
        if not colon or key not in _KEYS:
            raise ValueError(f"{word!r} is not a filter{_guess(word)}; filters look like {EXAMPLES}")
        if not value:
            raise ValueError(f"{word!r} has no value: write {key}:VALUE, without a blank after the colon")
        field, read = _KEYS[key]
        if field in changes and field != "status":
            raise ValueError(f"{key}: is given twice, and no run can match both")
        changes[field] = (
            changes.get(field, ()) + read(value, now, zone) if field == "status" else read(value, now, zone)
        )
    return Filters(**changes)


def _guess(word: str) -> str:
    """What a word was probably meant to be."""
    try:
        return f": did you mean status:{parse_status(word).value}?"
    except ValueError:
        return "" if ":" in word else f": did you mean id:{word}?"


def _text(value: str, _now: datetime, _zone: tzinfo | None) -> str:
    return value


def _statuses(value: str, _now: datetime, _zone: tzinfo | None) -> tuple[WorkflowStatus, ...]:
    return tuple(map(parse_status, value.split(",")))


_Read = Callable[[str, datetime, tzinfo | None], Any]
_KEYS: dict[str, tuple[str, _Read]] = {
    "status": ("status", _statuses),
    "name": ("name", _text),
    "tag": ("tag", _text),
    "since": ("since", parse_moment),
    "until": ("until", parse_moment),
    "id": ("id_prefix", _text),
    "parent": ("parent", _text),
}
