"""Histories as JSON files: reading returns what was written, and a file that is not a history is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable.backends.histories import history_from_json, history_to_json, load_histories, save_histories
from durable.errors import CodecError, StoreUnusable
from durable.model.records import (
    EntryKind,
    EntryStatus,
    HistoryEntry,
    ParkReason,
    WorkflowHistory,
    WorkflowRecord,
    WorkflowStatus,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
INSTANTS = st.integers(0, 2**50)
ENTRIES = st.builds(
    HistoryEntry,
    st.integers(1, 10**6),
    TEXTS,
    st.sampled_from(EntryKind),
    TEXTS,
    st.sampled_from(EntryStatus),
    TEXTS,
    INSTANTS,
    st.none() | INSTANTS,
)
RECORDS = st.builds(
    WorkflowRecord,
    key=st.just(0),
    id=TEXTS,
    name=TEXTS,
    version=st.integers(1, 9),
    status=st.sampled_from(WorkflowStatus),
    input=TEXTS,
    created_at=INSTANTS,
    start_at=INSTANTS,
    wake_at=st.none() | INSTANTS,
    round=st.integers(0, 9),
    tags=st.lists(TEXTS, max_size=3).map(tuple),
    cancel_requested=st.booleans(),
    park_reason=st.none() | st.sampled_from(ParkReason),
    park_detail=st.none() | TEXTS,
)


@given(st.builds(WorkflowHistory, RECORDS, st.lists(ENTRIES, max_size=4).map(tuple)))
def test_history_survives_the_file(history: WorkflowHistory) -> None:
    """Whatever a workflow and its entries hold comes back as it was."""
    assert history_from_json(history_to_json(history)) == history


def a_history(id: str = "order-42", **changes: Any) -> WorkflowHistory:
    """A workflow with two entries."""
    record = WorkflowRecord(
        key=0, id=id, name="checkout", status=WorkflowStatus.SUSPENDED, input="{}", created_at=1, start_at=1, **changes
    )
    paid = HistoryEntry(1, "0", EntryKind.ACTIVITY, "charge", EntryStatus.OK, '{"cents":4200}', 2)
    failed = HistoryEntry(2, "1", EntryKind.ACTIVITY, "ship", EntryStatus.RETRY, "{}", 3, 4)
    return WorkflowHistory(record, (paid, failed))


def test_file_is_made_for_people() -> None:
    """Default values are omitted, and each entry has its own line, so that a diff shows the change."""
    lines = history_to_json(a_history()).splitlines()
    assert lines[:4] == ["{", '  "durable": 1,', '  "workflow": {', '    "id": "order-42",']
    assert sum('"seq"' in line for line in lines) == 2
    assert "parent" not in "".join(lines)


def test_files_are_named_after_their_workflows(tmp_path: Path) -> None:
    """Saving twice gives the same files; ids that look alike in a file name stay apart; the order is that of names."""
    histories = [a_history("b/1"), a_history("b:1"), a_history("a" * 200), a_history("Å")]
    files = save_histories(histories, tmp_path / "deep" / "folder")
    assert save_histories(histories, tmp_path / "deep" / "folder") == files
    assert len(set(files)) == 4
    assert max(len(file.name) for file in files) < 100
    assert set(load_histories(tmp_path / "deep" / "folder")) == set(histories)
    assert list(load_histories(files[0])) == [histories[0]]


def damaged(**changes: Any) -> str:
    """The file of a history with some parts replaced."""
    return json.dumps(json.loads(history_to_json(a_history())) | changes)


WORKFLOW = json.loads(history_to_json(a_history()))["workflow"]
REFUSED = {
    "no JSON": ("{", "Expecting"),
    "a list": ("[]", '"durable": 1'),
    "another format": (damaged(durable=2), '"durable": 1'),
    "no history": (damaged(history=None), "the list"),
    "no workflow": (damaged(workflow=7), "int, not a JSON object"),
    "no id": (damaged(workflow={"name": "w"}), "the field 'created_at' of workflow is missing"),
    "newer": (damaged(workflow=WORKFLOW | {"mood": "good"}), "newer durable"),
    "an id that is none": (damaged(workflow=WORKFLOW | {"id": ""}), "must not be empty"),
    "a number for text": (damaged(workflow=WORKFLOW | {"input": 7}), "input is int"),
    "an unknown status": (damaged(workflow=WORKFLOW | {"status": "asleep"}), "'asleep' is unknown"),
    "an entry that is none": (damaged(history=[{"seq": 1}]), "of history is missing"),
    "nested too deeply": ("[" * 100_000, "recursion"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_file_that_holds_no_history_is_refused(tmp_path: Path, name: str) -> None:
    """The error names the file."""
    text, reason = REFUSED[name]
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(CodecError, match=reason) as caught:
        list(load_histories(tmp_path))
    assert "bad.json" in str(caught.value)


def test_field_that_an_older_file_lacks_is_as_usual() -> None:
    """A field that was added later gets its default when it is missing."""
    fields = ("id", "name", "status", "input", "created_at", "start_at")
    text = damaged(workflow={field: WORKFLOW[field] for field in fields})
    assert history_from_json(text) == a_history()


def test_path_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    """A folder that does not exist is refused; an empty one holds no histories."""
    with pytest.raises(StoreUnusable, match="no such file or folder"):
        list(load_histories(tmp_path / "none"))
    assert list(load_histories(tmp_path)) == []
