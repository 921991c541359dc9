"""Checks of what callers in other processes leave: answers to their requests, and requests kept for the next engine."""

from __future__ import annotations

from durable.backends.base import Answers, KeptRequests
from durable.model.requests import KeptRequest, StoredAnswer
from durable.testing.conformance.kit import ALL, BackendFactory, Check, Store, same


def check_answers_by_id_and_age(make: BackendFactory) -> None:
    """An answer is found by the id of its request, and old answers are found oldest first; a put replaces it."""
    with Store(make) as store:
        answers = {
            id: StoredAnswer(request_id=id, text=f'{{"reply":"{id}☃"}}', at=at)
            for id, at in (("b", 2), ("a", 3), ("B", 1))
        }
        store.save(answers_put=answers)
        same(store.backend.find(Answers(request_id="b")), [answers["b"]])
        same(store.backend.find(Answers(request_id="c")), [])
        same(store.backend.find(Answers(before=3, limit=ALL)), [answers["B"], answers["b"]])
        same(store.backend.find(Answers(before=9, limit=2)), [answers["B"], answers["b"]])
        later = StoredAnswer(request_id="b", text="{}", at=7)
        store.save(answers_put={"b": later}, answers_dropped={"a", "unknown"})
        same(store.backend.find(Answers(before=9, limit=ALL)), [answers["B"], later])


def check_kept_requests_in_order(make: BackendFactory) -> None:
    """Kept requests come back in the order of their numbers, in pages, until they are dropped."""
    with Store(make) as store:
        kept = {
            number: KeptRequest(number=number, request_id=f"r{number}", operation='{"ö":1}', at=10 - number)
            for number in (3, 1, 2)
        }
        store.save(kept_put=kept)
        same(store.backend.find(KeptRequests(limit=ALL)), [kept[1], kept[2], kept[3]])
        same(store.backend.find(KeptRequests(after=1, limit=1)), [kept[2]])
        store.save(kept_dropped={1, 3, 99})
        same(store.backend.find(KeptRequests(limit=ALL)), [kept[2]])


CHECKS: tuple[Check, ...] = (check_answers_by_id_and_age, check_kept_requests_in_order)
