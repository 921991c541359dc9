"""Histories as JSON files: one workflow each, to be kept in a repository and replayed by its tests.

The fields are the columns of the tables, so a new column travels by itself. A field that has its usual value is left
out, and a field that an older file does not have gets it back. Knows the layout of the file. Must not know stores.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from durable.backends.sql import rows
from durable.backends.sql.tables import Row, Table
from durable.errors import CodecError, StoreUnusable
from durable.model.ids import digest
from durable.model.records import EntryKind, EntryStatus, HistoryEntry, WorkflowHistory, WorkflowRecord, WorkflowStatus

FORMAT = 1
_NAME_MAX = 80
# What a field holds that a file does not mention; these must be mentioned.
_REQUIRED = ("id", "name", "status", "input", "created_at", "start_at")
_USUAL_RECORD = rows.workflow_row(
    WorkflowRecord(key=0, id="?", name="?", status=WorkflowStatus.RUNNING, input="", created_at=0, start_at=0)
)
_ENTRY_REQUIRED = ("seq", "position", "kind", "name", "status", "outcome", "at")
_USUAL_ENTRY = rows.history_rows([(0, HistoryEntry(0, "", EntryKind.ACTIVITY, "", EntryStatus.OK, "", 0))])[0]


def save_histories(histories: Iterable[WorkflowHistory], folder: str | os.PathLike[str]) -> list[Path]:
    """Write each history to a file of its own in this folder, which is created; the same workflow, the same file."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for history in histories:
        file = target / _file_name(history.record)
        file.write_text(history_to_json(history), encoding="utf-8")
        written.append(file)
    return written


def load_histories(path: str | os.PathLike[str]) -> Iterator[WorkflowHistory]:
    """The history in a file, or those in all `*.json` files of a folder, in the order of their names.

    Raises `CodecError` for a file that holds none, `StoreUnusable` for a path that leads nowhere.
    """
    source = Path(path)
    if not source.exists():
        raise StoreUnusable(str(source), "there is no such file or folder of histories")
    for file in sorted(source.glob("*.json")) if source.is_dir() else [source]:
        yield history_from_json(file.read_text(encoding="utf-8", errors="replace"), str(file))


def history_to_json(history: WorkflowHistory) -> str:
    """A history as JSON text, laid out for people: one entry, one line."""
    record = _fields(rows.WORKFLOW, rows.workflow_row(history.record), _USUAL_RECORD, _REQUIRED)
    record.pop("key", None)
    entries = [
        _fields(rows.HISTORY, row, _USUAL_ENTRY, _ENTRY_REQUIRED)
        for row in rows.history_rows((0, entry) for entry in history.entries)
    ]
    head = json.dumps({"durable": FORMAT, "workflow": record}, ensure_ascii=False, indent=2)
    lines = ",".join(f"\n    {json.dumps(entry, ensure_ascii=False)}" for entry in entries)
    return f'{head.removesuffix("}").rstrip()},\n  "history": [{lines}\n  ]\n}}\n'


def history_from_json(text: str, where: str = "history") -> WorkflowHistory:
    """The history of a JSON text. Raises `CodecError`, naming `where` it was found."""
    try:
        data = json.loads(text)
        if not isinstance(data, dict) or data.get("durable") != FORMAT:
            raise ValueError(f'is no exported history: it must begin with "durable": {FORMAT}')
        entries = data.get("history")
        if not isinstance(entries, list):
            raise ValueError('the list "history" is missing')
        record = _record(rows.WORKFLOW, data.get("workflow"), _USUAL_RECORD, _REQUIRED)
        found = [_record(rows.HISTORY, one, _USUAL_ENTRY, _ENTRY_REQUIRED) for one in entries]
    except (ValueError, RecursionError) as error:
        raise CodecError(where, str(error)) from error
    return WorkflowHistory(record, tuple(found))


def _fields(table: Table[Any], row: Row, usual: Row, required: tuple[str, ...]) -> dict[str, Any]:
    named = zip(table.columns, row, usual, strict=True)
    return {column: value for column, value, other in named if column in required or value != other}


def _record(table: Table[Any], data: object, usual: Row, required: tuple[str, ...]) -> Any:
    if not isinstance(data, dict):
        raise ValueError(f"{table.name} is {type(data).__name__} and no JSON object")
    if unknown := data.keys() - set(table.columns):
        raise ValueError(f"the field {min(unknown)!r} is unknown: a newer durable has written this")
    if missing := set(required) - data.keys():
        raise ValueError(f"the field {min(missing)!r} of {table.name} is missing")
    return table.record(tuple(data.get(column, other) for column, other in zip(table.columns, usual, strict=True)))


def _file_name(record: WorkflowRecord) -> str:
    """A name that every file system takes; the digest tells ids apart that look the same in it."""
    shown = re.sub(r"[^A-Za-z0-9._-]+", "_", record.id).strip("._")[:_NAME_MAX]
    return f"{shown or 'workflow'}-{digest(record.id)[:8]}.json"
