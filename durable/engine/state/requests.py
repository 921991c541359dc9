"""What callers of other processes leave in the store: answers, and kept requests. Part of the coordinator's state.

A caller that has lost its connection repeats its request under the same id, and gets the first answer. Requests are
kept while no engine runs; the next one takes them when it opens. Nothing is cached: a read that the open batch cannot
answer goes to the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from durable.backends.base import Answers, Backend, Batch, KeptRequests
from durable.model.requests import KeptRequest, StoredAnswer


class Requests:
    """Stored answers, by the id of the request, and the kept requests that were there when the engine opened."""

    def __init__(self, backend: Backend) -> None:
        # The open batch; the state replaces it after each commit.
        self.batch = Batch()
        self._backend = backend
        # The number of the last kept request that was read.
        self._kept_until = 0
        # Whether there may be more.
        self.has_kept = True

    def answer(self, request_id: str) -> str | None:
        """The text of the answer to a request that was decided before; None if it is new or forgotten."""
        if (fresh := self.batch.answers_put.get(request_id)) is not None:
            return fresh.text
        stored = self._backend.find(Answers(request_id=request_id))
        return stored[0].text if stored else None

    def put_answer(self, answer: StoredAnswer) -> None:
        """Keep the answer to a request. It must be in the batch of what the request has changed."""
        self.batch.answers_dropped.discard(answer.request_id)
        self.batch.answers_put[answer.request_id] = answer

    def drop_answers(self, answers: Iterable[StoredAnswer]) -> None:
        """Forget old answers. A repeat counts as a new request from then on."""
        self.batch.answers_dropped.update(answer.request_id for answer in answers)

    def next_kept(self, limit: int) -> Sequence[KeptRequest]:
        """The next kept requests, each of them once. None are added while an engine has the store."""
        page = self._backend.find(KeptRequests(after=self._kept_until, limit=limit)) if self.has_kept else ()
        self.has_kept = len(page) == limit
        if page:
            self._kept_until = page[-1].number
        return page

    def drop_kept(self, kept: KeptRequest) -> None:
        """Remove a kept request. Everything that follows from it must be in the same batch."""
        self.batch.kept_dropped.add(kept.number)
