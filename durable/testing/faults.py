"""A store that fails on purpose, around a real one.

Knows the protocol and a plan: which commit, or which call, goes wrong and how. Must not know what is behind it. With
"fail the n-th call" for every n, each place where a store can break is tried.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from durable.backends.base import Backend, Batch, HistoryLength, Opened, PendingCount, Query, R, Workflows
from durable.errors import StorageUnavailable
from durable.model.records import HistoryEntry, WorkflowRecord

T = TypeVar("T")


class Fault(enum.Enum):
    """What goes wrong with a commit."""

    FAIL_BEFORE = "fails, nothing was stored"
    FAIL_AFTER = "fails, though it was stored"
    CRASH_BEFORE = "the process ends before it"
    CRASH_AFTER = "the process ends after it"


_BEFORE = (Fault.FAIL_BEFORE, Fault.CRASH_BEFORE)
_CRASHES = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)


class SimCrash(BaseException):
    """Stands for the end of the process; a `BaseException`, so that no error handling takes it for a failure."""


class FaultyBackend:
    """The inner store, except for what the plan says.

    `plan` names commits by their count, `fail_calls` names calls of any method but `close` by theirs; both count from
    1, over the life of this object, and may be changed at any time. A failed call does not reach the inner store.
    """

    def __init__(
        self, inner: Backend, plan: Mapping[int, Fault] | None = None, *, fail_calls: Iterable[int] = ()
    ) -> None:
        self.inner = inner
        self.plan: dict[int, Fault] = dict(plan or {})
        self.fail_calls: set[int] = set(fail_calls)
        self.commits = 0
        self.calls = 0

    def open(self, incarnation: str) -> Opened:
        return self._call(lambda: self.inner.open(incarnation))

    def close(self) -> None:
        self.inner.close()

    def commit(self, batch: Batch) -> None:
        self.commits += 1
        fault = self.plan.get(self.commits)
        if fault in _BEFORE:
            raise self._error(fault)
        self._call(lambda: self.inner.commit(batch))
        if fault is not None:
            raise self._error(fault)

    def last_batch(self) -> int:
        return self._call(self.inner.last_batch)

    def workflow(self, id: str) -> WorkflowRecord | None:
        return self._call(lambda: self.inner.workflow(id))

    def workflow_by_key(self, key: int) -> WorkflowRecord | None:
        return self._call(lambda: self.inner.workflow_by_key(key))

    def history(self, key: int) -> list[HistoryEntry]:
        return self._call(lambda: self.inner.history(key))

    def find(self, query: Query[R]) -> Sequence[R]:
        return self._call(lambda: self.inner.find(query))

    def count(self, query: Workflows | PendingCount | HistoryLength) -> int:
        return self._call(lambda: self.inner.count(query))

    def _call(self, action: Callable[[], T]) -> T:
        self.calls += 1
        if self.calls in self.fail_calls:
            raise StorageUnavailable(f"call {self.calls} fails, as planned")
        return action()

    def _error(self, fault: Fault | None) -> BaseException:
        if fault in _CRASHES:
            return SimCrash(f"at commit {self.commits}, as planned")
        return StorageUnavailable(f"commit {self.commits} fails, as planned")
