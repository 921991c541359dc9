"""Answers to requests, and requests that are kept for the next engine: their tables and questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from durable.backends.base import Answers, KeptRequests, Query
from durable.backends.sql.tables import Row, Select, Table
from durable.model.requests import KeptRequest, StoredAnswer


def answer_row(answer: StoredAnswer) -> Row:
    """The row of an answer."""
    return (answer.request_id, answer.text, answer.at)


def _answer(row: Row) -> StoredAnswer:
    request_id, text, at = row
    return StoredAnswer(request_id=request_id, text=text, at=at)


def kept_row(kept: KeptRequest) -> Row:
    """The row of a kept request."""
    return (kept.number, kept.request_id, kept.operation, kept.at)


def _kept(row: Row) -> KeptRequest:
    number, request_id, operation, at = row
    return KeptRequest(number=number, request_id=request_id, operation=operation, at=at)


ANSWER = Table("answer", "request_id:text text:text at:instant", ("request_id",), _answer)
KEPT = Table("kept_request", "number:count request_id:text operation:text at:instant", ("number",), _kept)


def _answers(query: Answers) -> Select:
    """One answer by its primary key, or the oldest ones by the index `answer_at`."""
    filters = {"request_id = :request_id": query.request_id, "at < :before": query.before}
    terms = [term for term, value in filters.items() if value is not None]
    where = f" WHERE {' AND '.join(terms)}" if terms else ""
    sql = f"SELECT {ANSWER.select()} FROM answer{where} ORDER BY at, request_id LIMIT :limit"
    return Select(ANSWER, sql, {"request_id": query.request_id, "before": query.before}, query.limit)


def _kept_requests(query: KeptRequests) -> Select:
    sql = f"SELECT {KEPT.select()} FROM kept_request WHERE number > :after ORDER BY number LIMIT :limit"
    return Select(KEPT, sql, {"after": query.after}, query.limit)


# The functions that turn questions into statements. Each takes the type that is its key.
SELECTS: dict[type[Query[Any]], Callable[[Any], Select]] = {Answers: _answers, KeptRequests: _kept_requests}
