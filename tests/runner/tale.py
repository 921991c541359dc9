"""A `Tale`: a live session that is told what happens, while fresh sessions that replay its entries must be the same.

States of loops are recorded as the engine does it, with the entry that has ended the round; what is trimmed is gone.
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
    """Everything that others can see of a session, with its undos."""
    owed = [(one.position, one.name, one.value) for one in session.owed()]
    return picture(session, result) | {"owed": owed, "failed": [*session.failed_undos()], "owes": session.owes}


class Tale:
    """What happens to one workflow without arguments. After every entry it is replayed from the beginning."""

    # The number of the last entry.
    seq = 0

    def __init__(self, definition: WorkflowDef[[], Any]) -> None:
        self.definition = definition
        self.session = a_session(definition)
        self.entries: list[HistoryEntry] = []
        self.result = self.session.start()

    def ok(self, *positions: str, value: Any = None) -> Tale:
        """Some waits are answered well, one after the other: with the value, but a charge with what was charged."""
        for position in positions:
            wait = self.session.waits[position]
            result = wait.args[0] if wait.name == "charge" else value
            self.feed(answer(wait, self.seq + 1, result))
        return self

    def fails(self, position: str, error: BaseException) -> Tale:
        """An activity fails for good."""
        return self.feed(activity_error(self.seq + 1, position, self.session.waits[position].name, error))

    def cancelled(self, reason: str | None = None) -> Tale:
        """The workflow is asked to end."""
        return self.feed(cancellation(self.seq + 1, reason))

    def refused(self, text: str) -> Tale:
        """What it ended with cannot be stored; the text is the stored form of the error."""
        seq = self.seq + 1
        return self.feed(
            HistoryEntry(seq, "", EntryKind.REFUSAL, "result", EntryStatus.ERROR, text, seconds(seq))
        )  # fmt: skip

    def feed(self, entry: HistoryEntry) -> Tale:
        """One more entry, and the states of the rounds that begin with it."""
        self._record(entry)
        while (wait := self._state()) is not None:
            text = wait.input
            self._record(HistoryEntry(self.seq + 1, wait.position, wait.kind, wait.name, OK, text, self.session.now))
        self.again().close()
        return self

    def again(self, definition: WorkflowDef[[], Any] | None = None) -> WorkflowSessionRunner:
        """Another session that has replayed the same, here with the code at hand or with another one."""
        fresh = a_session(definition or self.definition)
        replayed = fresh.replay(self.entries)
        assert whole(fresh, replayed) == whole(self.session, self.result)
        assert definition is not None or not fresh.trimmed, "a replay finds more to trim"
        return fresh

    def restart(self, definition: WorkflowDef[[], Any] | None = None) -> Tale:
        """Go on with a session that has replayed everything, under this code."""
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
        assert self.session.trimmed <= {entry.seq for entry in self.entries}, "what is gone is trimmed again"
        self.entries = [entry for entry in self.entries if entry.seq not in self.session.trimmed]
        self.session.trimmed = frozenset()

    def _state(self) -> WaitCondition | None:
        return next((wait for wait in self.session.waits.values() if wait.kind is EntryKind.LOOP), None)

    @property
    def open(self) -> dict[str, str]:
        """What it waits for: name and arguments by position."""
        assert isinstance(self.result, Suspended), self.result
        return {
            wait.position: " ".join(map(str, (wait.name, *wait.args))) for wait in self.session.waits.values()
        }  # fmt: skip

    @property
    def recorded(self) -> list[str]:
        """What stands in the history: the positions of its entries, those of states with a star."""
        return [entry.position + "*" * (entry.kind is EntryKind.LOOP) for entry in self.entries]

    @property
    def withdrawn(self) -> list[str]:
        """What it no longer waits for since the last entry."""
        assert isinstance(self.result, Suspended), self.result
        return [wait.position for wait in self.result.withdrawn]

    @property
    def owed(self) -> list[str]:
        """What would be undone now, in this order: the undo and the position of its step."""
        return [f"{one.name} {one.position}" for one in self.session.owed()]

    @property
    def failed(self) -> list[str]:
        """What could not be undone: the undo, the position of its step and the message."""
        return [f"{one.undo} {one.position} {one.message}" for one in self.session.failed_undos()]

    @property
    def error(self) -> BaseException:
        """How it failed."""
        return error_of(self.result)

    @property
    def value(self) -> Any:
        """What it returned."""
        return value_of(self.result)
