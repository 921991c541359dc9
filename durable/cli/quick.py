"""`ps` without a client: the runs of a SQLite store, read from its file at once.

A list shows what the last commit left, and the file of a running engine shows the same. So the answer is that of the
engine, without the connection, the event loop and most of the imports, which take longer than the list itself. Only
what clients have kept for the next engine is not in the tables; while there is any, `ps` goes through the client.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice

from durable.backends.base import Background, Backgrounds, KeptRequests, Workflows
from durable.backends.sqlite.reader import StoreReader
from durable.backends.sqlite.readings import Readings
from durable.cli.filters import Filters
from durable.model.clock import from_datetime
from durable.model.records import WorkflowRecord
from durable.model.summaries import WorkflowSummary

_PAGE = 1_000


def has_kept(reader: StoreReader) -> bool:
    """Whether clients have kept something for the next engine."""
    return bool(reader.ask(lambda reads: reads.find(KeptRequests(limit=1))))


def count(reader: StoreReader, filters: Filters) -> int:
    """How many runs match."""
    return reader.ask(lambda reads: reads.count(_query(filters, None, 1)))


def matching(reader: StoreReader, filters: Filters, limit: int | None) -> Iterator[WorkflowSummary]:
    """The runs that match, newest first, read page by page."""
    size = _PAGE if limit is None else min(limit, _PAGE)
    return islice(_pages(reader, filters, size), limit)


def _pages(reader: StoreReader, filters: Filters, size: int) -> Iterator[WorkflowSummary]:
    after: int | None = None
    while True:
        page = reader.ask(partial(_page, query=_query(filters, after, size)))
        yield from (summary for _, summary in page)
        if len(page) < size:
            return
        after = page[-1][0]


def _query(filters: Filters, after: int | None, limit: int) -> Workflows:
    """The query that `runs.list` would ask."""
    return Workflows(
        statuses=filters.status,
        name=filters.name,
        tag=filters.tag,
        created_since=None if filters.since is None else from_datetime("since", filters.since),
        created_until=None if filters.until is None else from_datetime("until", filters.until),
        id_prefix=filters.id_prefix,
        parent=filters.parent,
        as_shown=True,
        newest_first=True,
        after=after,
        limit=limit,
    )


def _page(reads: Readings, query: Workflows) -> list[tuple[int, WorkflowSummary]]:
    """The keys and summaries of a page."""
    records: list[WorkflowRecord] = list(reads.find(query))
    if not records:
        return []
    keys = tuple(record.key for record in records)
    backgrounds = {background.workflow_key: background for background in reads.find(Backgrounds(keys))}
    rows = [(record, backgrounds.get(record.key) or Background(record.key, None, None)) for record in records]
    return [(record.key, WorkflowSummary.of(record, more.parent_id, more.progress)) for record, more in rows]
