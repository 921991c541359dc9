"""A `Tale`: a live session that is told what happens, while fresh sessions that replay its entries must be the same."""

from __future__ import annotations

from typing import Any

from durable.records import EntryKind, EntryStatus, HistoryEntry
from durable.runner.definitions import WorkflowDef
from durable.runner.results import SessionResult, Suspended
from durable.runner.session import WorkflowSessionRunner
from tests.runner.builders import a_session, activity_error, answer, cancellation, error_of, picture, seconds, value_of


def whole(session: WorkflowSessionRunner, result: SessionResult) -> dict[str, Any]:
    """Everything that others can see of a session, with its undos."""
    owed = [(one.number, one.position, one.name, one.value) for one in session.owed()]
    return picture(session, result) | {"owed": owed, "failed": [*session.failed_undos()], "owes": session.owes}


class Tale:
    """What happens to one workflow without arguments. After every entry it is replayed from the beginning."""

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
            self.feed(answer(wait, len(self.entries) + 1, result))
        return self

    def fails(self, position: str, error: BaseException) -> Tale:
        """An activity fails for good."""
        return self.feed(activity_error(len(self.entries) + 1, position, self.session.waits[position].name, error))

    def cancelled(self, reason: str | None = None) -> Tale:
        """The workflow is asked to end."""
        return self.feed(cancellation(len(self.entries) + 1, reason))

    def refused(self, text: str) -> Tale:
        """What it ended with cannot be stored; the text is the stored form of the error."""
        seq = len(self.entries) + 1
        return self.feed(
            HistoryEntry(seq, "", EntryKind.REFUSAL, "result", EntryStatus.ERROR, text, seconds(seq))
        )  # fmt: skip

    def feed(self, entry: HistoryEntry) -> Tale:
        """One more entry."""
        self.entries.append(entry)
        self.result = self.session.feed(entry)
        fresh = a_session(self.definition)
        replayed = fresh.replay(self.entries)
        assert whole(fresh, replayed) == whole(self.session, self.result)
        fresh.close()
        return self

    @property
    def open(self) -> dict[str, str]:
        """What it waits for: name and arguments by position."""
        assert isinstance(self.result, Suspended), self.result
        return {
            wait.position: " ".join(map(str, (wait.name, *wait.args))) for wait in self.session.waits.values()
        }  # fmt: skip

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
