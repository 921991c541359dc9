"""Histories as JSON files: one workflow per file, to be kept in a repository and replayed by its tests.

The fields are the columns of the tables, so a new column needs no change here. A field with its default value is
omitted, and a field that an older file does not have gets its default. Knows the layout of the file, and nothing about
stores.
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
# Fields that a file must contain. Any other field has a default.
_REQUIRED = ("id", "name", "status", "input", "created_at", "start_at")
_USUAL_RECORD = rows.workflow_row(
    WorkflowRecord(key=0, id="?", name="?", status=WorkflowStatus.RUNNING, input="", created_at=0, start_at=0)
)
_ENTRY_REQUIRED = ("seq", "position", "kind", "name", "status", "outcome", "at")
_USUAL_ENTRY = rows.history_rows([(0, HistoryEntry(0, "", EntryKind.ACTIVITY, "", EntryStatus.OK, "", 0))])[0]


def save_histories(histories: Iterable[WorkflowHistory], folder: str | os.PathLike[str]) -> list[Path]:
    """Write each history to a separate file in this folder, which is created if necessary. Returns the files.

    The name of a file depends only on the id of the workflow, so a later export replaces an earlier one.
    """
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

    Raises `CodecError` for a file that is not a history, `StoreUnusable` for a path that does not exist.
    """
    source = Path(path)
    if not source.exists():
        raise StoreUnusable(str(source), "there is no such file or folder of histories")
    for file in sorted(source.glob("*.json")) if source.is_dir() else [source]:
        yield history_from_json(file.read_text(encoding="utf-8", errors="replace"), str(file))


def history_to_json(history: WorkflowHistory) -> str:
    """A history as JSON text, laid out for people: one line per entry."""
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
    """The history in a JSON text. Raises `CodecError` that starts with `where`, such as the name of the file."""
    try:
        data = json.loads(text)
        if not isinstance(data, dict) or data.get("durable") != FORMAT:
            raise ValueError(f'is not an exported history: it must contain "durable": {FORMAT}')
        entries = data.get("history")
        if not isinstance(entries, list):
            raise ValueError('the list "history" is missing')
        record = _record(rows.WORKFLOW, data.get("workflow"), _USUAL_RECORD, _REQUIRED)
        entries_read = [_record(rows.HISTORY, entry, _USUAL_ENTRY, _ENTRY_REQUIRED) for entry in entries]
    except (ValueError, RecursionError) as error:
        raise CodecError(where, str(error)) from error
    return WorkflowHistory(record, tuple(entries_read))


def _fields(table: Table[Any], row: Row, usual: Row, required: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a row by column, without those that have their default."""
    named = zip(table.columns, row, usual, strict=True)
    return {column: value for column, value, default in named if column in required or value != default}


def _record(table: Table[Any], data: object, usual: Row, required: tuple[str, ...]) -> Any:
    """The record of JSON fields, with defaults for missing ones. Raises `ValueError` or `CodecError`."""
    if not isinstance(data, dict):
        raise ValueError(f"{table.name} is {type(data).__name__}, not a JSON object")
    if unknown := data.keys() - set(table.columns):
        raise ValueError(f"the field {min(unknown)!r} is unknown: a newer durable wrote this file")
    if missing := set(required) - data.keys():
        raise ValueError(f"the field {min(missing)!r} of {table.name} is missing")
    return table.record(tuple(data.get(column, default) for column, default in zip(table.columns, usual, strict=True)))


def _file_name(record: WorkflowRecord) -> str:
    """A name that every file system accepts. The digest tells apart ids that look the same after the replacement."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", record.id).strip("._")[:_NAME_MAX]
    return f"{readable or 'workflow'}-{digest(record.id)[:8]}.json"
