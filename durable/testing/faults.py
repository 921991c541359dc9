"""A store that fails on purpose, around a real one.

It knows the `Backend` protocol and a plan: which commit or call fails, and how. It knows nothing of the store inside. A
test that runs the same scenario once for each n, with `fail_calls=[n]`, tries every place where a store can fail.
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
    """How a commit goes wrong."""

    FAIL_BEFORE = "fails, nothing was stored"
    FAIL_AFTER = "fails, though it was stored"
    CRASH_BEFORE = "the process ends before it"
    CRASH_AFTER = "the process ends after it"


_BEFORE = (Fault.FAIL_BEFORE, Fault.CRASH_BEFORE)
_CRASHES = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)


class SimCrash(BaseException):
    """Simulates the death of the process at this point.

    A `BaseException`, so that no `except Exception` handles it as an ordinary failure.
    """


class FaultyBackend:
    """Passes every call on to the inner store, unless the plan says otherwise.

        store = FaultyBackend(MemoryBackend(), {3: Fault.FAIL_AFTER})    # the third commit is stored, and raises

    What the engine must do then: after FAIL_BEFORE repeat the commit, after FAIL_AFTER find out by the batch number
    that it happened, and after either crash recover from what is stored.

    `plan` maps the number of a commit to its fault. `fail_calls` holds the numbers of calls, of any method but `close`,
    that raise `StorageUnavailable` and do not reach the inner store. Both count from 1 over the life of this object and
    may be changed at any time.
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
