"""Pages and counts of workflows as SQL: which index serves which filters.

A filter by parent or by the beginning of an id leaves few rows. Those are collected by its index, and sorted for the
page if that index is not in the order of keys. All other filters are applied while rows are read in the order of keys.
"""

from __future__ import annotations

import sys
from collections.abc import Collection

from msgspec.json import encode

from durable.backends.base import Workflows
from durable.backends.sql import rows
from durable.backends.sql.indexes import INDEXED_STATUSES, status_is
from durable.backends.sql.tables import Params, Select, where
from durable.model.records import WorkflowStatus

# The key, hidden from SQLite's choice of an index.
_SORTED_KEY = "+w.key"
_FIRST_SURROGATE, _AFTER_SURROGATES = 0xD800, 0xE000


def workflows(query: Workflows, damaged: Collection[int] = ()) -> Select:
    """A page of workflows. The statuses decide between arms of a UNION and one scan."""
    source, key, terms, params = _workflow_filter(query)
    if query.after is not None:
        terms.append(f"{key} {'<' if query.newest_first else '>'} :after")
        params["after"] = query.after
    statuses = dict.fromkeys(query.statuses)
    if statuses and statuses.keys() <= set(INDEXED_STATUSES) and not _is_narrow(query):
        # One arm per range of the index, which SQLite merges by key. With an OR it would collect and sort all rows.
        arms = [[*terms, status_is(status)] for status in statuses]
    elif statuses:
        # One scan in key order. Separate arms would each scan the whole table for their status.
        arms = [[*terms, _status_in(query)]]
    else:
        arms = [terms]
    if statuses and damaged:
        arms = _as_shown(query, arms, terms, damaged, params)
    is_sorted = key == _SORTED_KEY
    columns = rows.WORKFLOW.select("w.")
    sql = " UNION ALL ".join(f"SELECT {'w.key' if is_sorted else columns} FROM {source}{where(arm)}" for arm in arms)
    # In a compound SELECT the order must name a column of the result. In a simple one it must name the column of the
    # table, so that SQLite reads in the order of its index.
    order = key if len(arms) == 1 else "key"
    direction = " DESC" if query.newest_first else ""
    sql += f" ORDER BY {order}{direction} LIMIT :limit"
    if is_sorted:
        # Only keys are sorted. Whole rows would be read and copied for all matches, and not just for the page.
        sql = f"SELECT {columns} FROM workflow AS w WHERE w.key IN ({sql}) ORDER BY w.key{direction} LIMIT :limit"
    return Select(rows.WORKFLOW, sql, params, query.limit)


def count_workflows(query: Workflows, damaged: Collection[int] = ()) -> tuple[str, Params]:
    """The statement that counts the workflows of a question."""
    source, _, terms, params = _workflow_filter(query)
    arms = [[*terms, _status_in(query)] if query.statuses else terms]
    if query.statuses and damaged:
        arms = _as_shown(query, arms, terms, damaged, params)
    counts = [f"SELECT count(*) FROM {source}{where(arm)}" for arm in arms]
    return counts[0] if len(counts) == 1 else f"SELECT {' + '.join(f'({arm_count})' for arm_count in counts)}", params


def _as_shown(
    query: Workflows, arms: list[list[str]], terms: list[str], damaged: Collection[int], params: Params
) -> list[list[str]]:
    """The arms without the damaged workflows, and another arm for these if the question includes parked ones."""
    params["damaged"] = encode(sorted(damaged)).decode()
    keys = "(SELECT value FROM json_each(:damaged))"
    shown = [[*arm, f"w.key NOT IN {keys}"] for arm in arms]
    return [*shown, [*terms, f"w.key IN {keys}"]] if WorkflowStatus.PARKED in query.statuses else shown


def _is_narrow(query: Workflows) -> bool:
    """Whether a query has a filter that leaves few rows. Only the index of that filter is used."""
    return query.parent is not None or query.id_prefix is not None


def _hidden(query: Workflows) -> str:
    """What stands before a column of another filter: a unary plus hides it from its index."""
    return "+" if _is_narrow(query) else ""


def _status_in(query: Workflows) -> str:
    """SQL for "has one of these statuses".

    OR instead of IN: SQLite does not see that an IN implies the condition of the partial index.
    """
    return f"({' OR '.join(_hidden(query) + status_is(status) for status in dict.fromkeys(query.statuses))})"


def _after_all(prefix: str) -> str | None:
    """The first text after all that begin with a prefix; None if there is none. SQLite compares texts by code point."""
    head = prefix.rstrip(chr(sys.maxunicode))
    if not head:
        return None
    following = ord(head[-1]) + 1
    # No text of a store has a lone surrogate.
    return head[:-1] + chr(_AFTER_SURROGATES if following == _FIRST_SURROGATE else following)


def _workflow_filter(query: Workflows) -> tuple[str, str, list[str], Params]:
    """The source of the rows, the column that orders them, and all filters except the statuses."""
    source, key = "workflow AS w", "w.key"
    terms: list[str] = []
    params: Params = {}
    if query.tag is not None:
        # CROSS JOIN fixes the order: first the rows of the tag, which are in key order, then their workflows.
        source, key = "workflow_tag AS t CROSS JOIN workflow AS w ON w.key = t.workflow", "t.workflow"
        terms.append("t.tag = :tag")
        params["tag"] = query.tag
    if query.name is not None:
        terms.append(f"{_hidden(query)}w.name = :name")
        params["name"] = query.name
    if query.parent is not None:
        terms.append("w.parent_key = (SELECT p.key FROM workflow AS p WHERE p.id = :parent)")
        params["parent"] = query.parent
    if query.id_prefix is not None:
        # The children of a workflow are found by it. Else SQLite must not prefer the order of keys to the index of ids.
        id = "w.id" if query.parent is None else "+w.id"
        key = _SORTED_KEY if source == "workflow AS w" and query.parent is None else key
        terms.append(f"{id} >= :id_prefix")
        params["id_prefix"] = query.id_prefix
        if (end := _after_all(query.id_prefix)) is not None:
            terms.append(f"{id} < :id_end")
            params["id_end"] = end
    if query.created_since is not None:
        terms.append("w.created_at >= :created_since")
        params["created_since"] = query.created_since
    if query.created_until is not None:
        terms.append("w.created_at <= :created_until")
        params["created_until"] = query.created_until
    if query.finished_before is not None:
        terms.append("w.finished_at < :finished_before")
        params["finished_before"] = query.finished_before
    return source, key, terms, params
