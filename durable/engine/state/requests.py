"""Answers to the changes that callers of other processes have made. Part of the coordinator's state.

A caller that has lost its connection repeats its request under the same id, and gets the first answer. Nothing is
cached: a read that the open batch cannot answer goes to the store.
"""

from __future__ import annotations

from collections.abc import Iterable

from durable.backends.base import Answers, Backend, Batch
from durable.model.requests import StoredAnswer


class Requests:
    """The stored answers, by the id of the request."""

    def __init__(self, backend: Backend) -> None:
        # The open batch; the state replaces it after each commit.
        self.batch = Batch()
        self._backend = backend

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
