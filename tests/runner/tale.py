"""A `Tale`: a live session that is fed entries, and after each one compared with a fresh session that replays them.

States of loops are recorded as the engine does it, together with the entry that ended the round. Trimmed entries are
left out of the next replay.
"""

from __future__ import annotations

from typing import Any

from durable.model.records import EntryKind, EntryStatus, HistoryEntry
from durable.runner.definitions import WorkflowDef
from durable.runner.fibers import WaitCondition
from durable.runner.results import SessionResult, Suspended
from durable.runner.session import WorkflowSessionRunner
from tests.runner.builders import a_session, activity_error, answer, cancellation, error_of, picture, seconds, value_of

OK = EntryStatus.OK


def whole(session: WorkflowSessionRunner, result: SessionResult) -> dict[str, Any]:
    """Everything that is visible of a session from outside, with its undos."""
    owed = [(undo.position, undo.name, undo.value) for undo in session.owed()]
    return picture(session, result) | {"owed": owed, "failed": [*session.failed_undos()], "owes": session.owes}


class Tale:
    """The history of one workflow without arguments. After every entry it is replayed from the beginning."""

    # The number of the last entry.
    seq = 0

    def __init__(self, definition: WorkflowDef[[], Any]) -> None:
        self.definition = definition
        self.session = a_session(definition)
        self.entries: list[HistoryEntry] = []
        self.result = self.session.start()

    def ok(self, *positions: str, value: Any = None) -> Tale:
        """Answer some waits successfully, in turn: a charge with the amount charged, any other with the value."""
        for position in positions:
            wait = self.session.waits[position]
            result = wait.args[0] if wait.name == "charge" else value
            self.feed(answer(wait, self.seq + 1, result))
        return self

    def fails(self, position: str, error: BaseException) -> Tale:
        """Fail an activity for good."""
        return self.feed(activity_error(self.seq + 1, position, self.session.waits[position].name, error))

    def cancelled(self, reason: str | None = None) -> Tale:
        """Cancel the workflow."""
        return self.feed(cancellation(self.seq + 1, reason))

    def refused(self, text: str) -> Tale:
        """Refuse to store the result of the workflow. The text is the stored form of the error."""
        seq = self.seq + 1
        return self.feed(
            HistoryEntry(seq, "", EntryKind.REFUSAL, "result", EntryStatus.ERROR, text, seconds(seq))
        )  # fmt: skip

    def feed(self, entry: HistoryEntry) -> Tale:
        """Feed one more entry, and then the states of the rounds that begin with it."""
        self._record(entry)
        while (wait := self._state()) is not None:
            text = wait.input
            self._record(HistoryEntry(self.seq + 1, wait.position, wait.kind, wait.name, OK, text, self.session.now))
        self.again().close()
        return self

    def again(self, definition: WorkflowDef[[], Any] | None = None) -> WorkflowSessionRunner:
        """A fresh session that has replayed the same entries, with the same definition or with the given one."""
        fresh = a_session(definition or self.definition)
        replayed = fresh.replay(self.entries)
        assert whole(fresh, replayed) == whole(self.session, self.result)
        assert definition is not None or not fresh.trimmed, "a replay finds more to trim"
        return fresh

    def restart(self, definition: WorkflowDef[[], Any] | None = None) -> Tale:
        """Replace the live session by one that has replayed everything, with the same definition or the given one."""
        session = self.again(definition)
        self.session.close()
        self.session, self.definition = session, definition or self.definition
        self._trim()
        return self

    def _record(self, entry: HistoryEntry) -> None:
        self.seq = entry.seq
        self.entries.append(entry)
        self.result = self.session.feed(entry)
        self._trim()

    def _trim(self) -> None:
        assert self.session.trimmed <= {entry.seq for entry in self.entries}, "a trimmed entry is trimmed again"
        self.entries = [entry for entry in self.entries if entry.seq not in self.session.trimmed]
        self.session.trimmed = frozenset()

    def _state(self) -> WaitCondition | None:
        return next((wait for wait in self.session.waits.values() if wait.kind is EntryKind.LOOP), None)

    @property
    def open(self) -> dict[str, str]:
        """The open waits: name and arguments by position."""
        assert isinstance(self.result, Suspended), self.result
        return {
            wait.position: " ".join(map(str, (wait.name, *wait.args))) for wait in self.session.waits.values()
        }  # fmt: skip

    @property
    def recorded(self) -> list[str]:
        """The positions of the entries in the history. Those of states have a star."""
        return [entry.position + "*" * (entry.kind is EntryKind.LOOP) for entry in self.entries]

    @property
    def withdrawn(self) -> list[str]:
        """The positions of the waits that the last entry withdrew."""
        assert isinstance(self.result, Suspended), self.result
        return [wait.position for wait in self.result.withdrawn]

    @property
    def owed(self) -> list[str]:
        """The undos that would run now, in this order: the name and the position of the step."""
        return [f"{undo.name} {undo.position}" for undo in self.session.owed()]

    @property
    def failed(self) -> list[str]:
        """The undos that have failed: the name, the position of the step, and the message."""
        return [f"{undo.undo} {undo.position} {undo.message}" for undo in self.session.failed_undos()]

    @property
    def error(self) -> BaseException:
        """The error of the workflow."""
        return error_of(self.result)

    @property
    def value(self) -> Any:
        """The result of the workflow."""
        return value_of(self.result)
