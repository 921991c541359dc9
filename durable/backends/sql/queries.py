"""The questions of `backends.base` as SQL.

Knows the tables, and which index answers which question; `tests/backends/test_plans.py` pins the plans. Knows nothing
about connections. Every value is a bound parameter; only names and statuses of durable are part of the text.

A cursor is a comparison with the key that orders the rows, so a page costs the same however far down it is.

Three tools force a plan where SQLite would choose a bad one, because it has no statistics about the store:

- CROSS JOIN fixes the order of a join: the left table is the outer loop.
- A unary plus in front of a column hides it from an index.
- INDEXED BY names the index; the statement fails if that index cannot serve it.

To add a question: write its class in `base.queries`, a function here that returns a `Select`, and an entry in
`_SELECTS`. Then pin its plan in `test_plans.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, cast

from msgspec.json import encode

from durable.backends.base import (
    AttachedTo,
    Backgrounds,
    ChildIds,
    Children,
    EventsFor,
    HistoryLength,
    Letters,
    Mailbox,
    OpenPauses,
    PendingCount,
    PendingEvents,
    ProgressOf,
    Query,
    R,
    Schedules,
    Sent,
    StaleEvents,
    Suspects,
    Taken,
    TheseWorkflows,
    Timers,
    WaitsFor,
    WaitsOf,
    Workflows,
)
from durable.backends.sql import mail_rows, request_rows, rows, schedule_rows, view_queries
from durable.backends.sql.indexes import IS_TIED
from durable.backends.sql.tables import Params as Params
from durable.backends.sql.tables import Select, where
from durable.backends.sql.workflow_queries import count_workflows, workflows
from durable.errors import InvariantViolated
from durable.model.timers import OF_SCHEDULE, OF_WORKFLOW


def select(query: Query[R], damaged: Collection[int] = ()) -> Select:
    """The statement for a question. Raises `InvariantViolated` for an unknown question.

    `damaged` are the keys of workflows that are shown as parked, whatever their rows say.
    """
    if damaged and isinstance(query, Workflows):
        return workflows(query, damaged)
    make = _SELECTS.get(type(query))
    if make is None:
        raise InvariantViolated(f"no store can answer {type(query).__name__}")
    return make(query)


def count(query: Workflows | PendingCount | HistoryLength, damaged: Collection[int] = ()) -> tuple[str, Params]:
    """The statement that counts the rows of a question. Its limit and its cursor are ignored."""
    if isinstance(query, HistoryLength):
        return view_queries.HISTORY_LENGTH_SQL, {"workflow": query.workflow_key}
    if isinstance(query, PendingCount):
        return _pending_count(query)
    return count_workflows(query, damaged)


def _pending_count(query: PendingCount) -> tuple[str, Params]:
    """The statement that counts pending events. Each form reads one index."""
    params: Params = {}
    if query.name is not None:
        # `IS NULL` twice is the condition of the index `pending_event_open`.
        term = "name = :name AND taken = :taken AND target IS NULL AND unstarted IS NULL"
        params = {"name": query.name, "taken": int(query.taken)}
    elif query.target is not None:
        term, params = "target = :target", {"target": query.target}
    elif query.unstarted is not None:
        term, params = "unstarted = :unstarted", {"unstarted": query.unstarted}
    else:
        term = "unstarted IS NOT NULL"
    return f"SELECT count(*) FROM pending_event WHERE {term}", params


def _these_workflows(query: TheseWorkflows) -> Select:
    """The workflows of two JSON arrays, one of ids and one of keys."""
    arrays = {"id": query.ids, "key": query.keys}
    arms = [  # CROSS JOIN makes SQLite search the index once per value, and never scan the table.
        f"SELECT {rows.WORKFLOW.select('w.')} FROM json_each(:{column}s) AS asked "
        f"CROSS JOIN workflow AS w ON w.{column} = asked.value"
        for column, values in arrays.items()
        if values or not (query.ids or query.keys)
    ]
    params = {f"{column}s": encode(values).decode() for column, values in arrays.items()}
    return Select(rows.WORKFLOW, f"{' UNION ALL '.join(arms)} LIMIT :limit", params, None)


def _timers(query: Timers) -> Select:
    """The earliest deadlines of two tables, merged by SQLite.

    At the same instant schedules come first, because their stored keys are below those of workflows. So the order by
    key is the order of `Timer`, and both indexes have it.
    """
    terms: list[str] = ["wake_at IS NOT NULL"]
    params: Params = {}
    if query.after is not None:
        # One arm for the same instant and one for later instants, so that each starts at the right place in the index.
        terms = ["wake_at = :wake_at AND key > :key", "wake_at > :wake_at"]
        params = {"wake_at": query.after[0], "key": query.after[2]}
    kinds = (OF_WORKFLOW, OF_SCHEDULE)
    # The tables are named like the kinds.
    arms = (f"SELECT wake_at, '{kind}' AS kind, key FROM {kind} WHERE {term}" for kind in kinds for term in terms)
    sql = " UNION ALL ".join(arms)
    return Select(rows.TIMER, f"{sql} ORDER BY wake_at, key LIMIT :limit", params, query.limit)


def _waits_of(query: WaitsOf) -> Select:
    sql = f"SELECT {rows.WAIT.select()} FROM event_wait WHERE workflow = :workflow ORDER BY position LIMIT :limit"
    return Select(rows.WAIT, sql, {"workflow": query.workflow_key}, None)


def _waits_for(query: WaitsFor) -> Select:
    """The waits for a name and key, the oldest first: serials ascend with age."""
    sql = (
        f"SELECT {rows.WAIT.select()} FROM event_wait WHERE name = :name AND event_key = :event_key "
        "AND serial > :after ORDER BY serial LIMIT :limit"
    )
    params = {"name": query.name, "event_key": query.event_key, "after": query.after_serial}
    return Select(rows.WAIT, sql, params, query.limit)


def _open_pauses(query: OpenPauses) -> Select:
    """Open pauses: the waits with an empty name and an empty key."""
    terms = ["e.name = ''", "e.event_key = ''", "e.serial > :after"]
    params: Params = {"after": query.after}
    if query.workflow_key is not None:
        # The unary plus keeps SQLite off the index of all pauses: the workflow has only a few rows.
        terms = ["e.workflow = :workflow", *(f"+{term}" for term in terms)]
        params["workflow"] = query.workflow_key
    if query.name is not None:
        terms.append("w.name = :name")
        params["name"] = query.name
    # CROSS JOIN fixes the order: first the pauses, which are in order of their numbers, then their workflows.
    source = "event_wait AS e CROSS JOIN workflow AS w ON w.key = e.workflow"
    columns = f"{rows.WAIT.select('e.')}, w.id, w.name, w.round, w.status"
    sql = f"SELECT {columns} FROM {source}{where(terms)} ORDER BY e.serial LIMIT :limit"
    return Select(rows.PAUSE, sql, params, query.limit)


def _events_for(query: EventsFor) -> Select:
    """The queue of one name and key, in one mailbox or untargeted, by the index `pending_event_queue`."""
    sql = (
        # IS instead of =, because `target` is NULL in the untargeted queue.
        f"SELECT {rows.EVENT.select()} FROM pending_event WHERE name = :name AND event_key = :event_key "
        "AND target IS :target AND unstarted IS NULL AND consume = :consume AND serial > :after "
        "ORDER BY serial LIMIT :limit"
    )
    params = {
        "name": query.name,
        "event_key": query.event_key,
        "target": query.target,
        "consume": int(query.consume),
        "after": query.after_serial,
    }
    return Select(rows.EVENT, sql, params, query.limit)


def _pending_events(query: PendingEvents) -> Select:
    """One event, or a page of events in the order of their serials."""
    if query.serial is not None:
        sql = f"SELECT {rows.EVENT.select()} FROM pending_event WHERE serial = :serial LIMIT :limit"
        return Select(rows.EVENT, sql, {"serial": query.serial}, query.limit)
    filters = {"target": query.target, "unstarted": query.unstarted, "name": query.name}
    params: Params = {column: value for column, value in filters.items() if value is not None}
    terms = [f"{column} = :{column}" for column in params]
    if "name" in params:
        # The unary plus keeps SQLite off the index by name, whose rows it would have to sort for the page.
        terms[-1] = f"+{terms[-1]}"
    terms.append("serial > :after")
    if query.valid_at is not None:
        terms.append("(expires_at IS NULL OR expires_at > :valid_at)")
        params["valid_at"] = query.valid_at
    sql = f"SELECT {rows.EVENT.select()} FROM pending_event{where(terms)} ORDER BY serial LIMIT :limit"
    return Select(rows.EVENT, sql, {**params, "after": query.after}, query.limit)


def _taken(query: Taken) -> Select:
    """The last taken broadcasts of a workflow, by the primary key."""
    filters = {"workflow": query.workflow_key, "name": query.name, "event_key": query.event_key}
    params: Params = {column: value for column, value in filters.items() if value is not None}
    terms = [f"{column} = :{column}" for column in params]
    sql = f"SELECT {mail_rows.TAKEN.select()} FROM broadcast_taken{where(terms)} LIMIT :limit"
    return Select(mail_rows.TAKEN, sql, params, None)


def _mailbox(query: Mailbox) -> Select:
    """All events of one mailbox, or for one id that is not started yet."""
    column, value = ("unstarted", query.unstarted) if query.target is None else ("target", query.target)
    sql = f"SELECT {rows.EVENT.select()} FROM pending_event WHERE {column} = :box ORDER BY serial LIMIT :limit"
    return Select(rows.EVENT, sql, {"box": value}, query.limit)


def _stale_events(query: StaleEvents) -> Select:
    """Events to expire, by two indexes."""
    # Each arm takes a few rows by its own index. An OR over both would scan the whole table on every sweep.
    sql = (
        f"SELECT {rows.EVENT.select()} FROM pending_event WHERE serial IN ("
        "SELECT serial FROM (SELECT serial FROM pending_event WHERE expires_at <= :expired_at "
        "ORDER BY expires_at LIMIT :limit) "
        "UNION SELECT serial FROM (SELECT serial FROM pending_event WHERE target IS NULL AND since < :since_before "
        "ORDER BY since LIMIT :limit)"
        ") ORDER BY serial LIMIT :limit"
    )
    params = {"expired_at": query.expired_at, "since_before": query.since_before}
    return Select(rows.EVENT, sql, params, query.limit)


def _letters(query: Letters) -> Select:
    """One dead letter, a page by id, or the oldest ones for the sweep."""
    columns = mail_rows.LETTER.select()
    if query.died_before is not None:
        sql = f"SELECT {columns} FROM dead_letter WHERE died_at < :before ORDER BY died_at LIMIT :limit"
        return Select(mail_rows.LETTER, sql, {"before": query.died_before}, query.limit)
    term, value = ("id > :id", query.after) if query.id is None else ("id = :id", query.id)
    sql = f"SELECT {columns} FROM dead_letter WHERE {term} ORDER BY id LIMIT :limit"
    return Select(mail_rows.LETTER, sql, {"id": value}, query.limit)


def _sent(query: Sent) -> Select:
    """The record of one event id, or the oldest ones for the sweep."""
    terms: list[str] = []
    params: Params = {}
    if query.event_id is not None:
        terms.append("event_id = :event_id")
        params["event_id"] = query.event_id
    if query.before is not None:
        terms.append("at < :before")
        params["before"] = query.before
    sql = f"SELECT {rows.SENT.select()} FROM sent_event{where(terms)} ORDER BY at, event_id LIMIT :limit"
    return Select(rows.SENT, sql, params, query.limit)


def _children(query: Children) -> Select:
    """The children to cancel when a workflow ends, by the index `workflow_child`."""
    columns = rows.WORKFLOW.select()
    # INDEXED BY, because the index of all children would also lead through those that have ended.
    source = "workflow INDEXED BY workflow_child"
    sql = f"SELECT {columns} FROM {source} WHERE parent_key = :parent AND {IS_TIED} ORDER BY key LIMIT :limit"
    return Select(rows.WORKFLOW, sql, {"parent": query.parent_key}, None)


def _child_ids(query: ChildIds) -> Select:
    return Select(rows.ID, view_queries.CHILD_IDS_SQL, {"parent": query.parent_key}, query.limit)


def _backgrounds(query: Backgrounds) -> Select:
    return Select(
        view_queries.BACKGROUND, view_queries.BACKGROUNDS_SQL, {"keys": encode(query.workflow_keys).decode()}, None
    )


def _progress_of(query: ProgressOf) -> Select:
    sql = f"SELECT {rows.PROGRESS.select()} FROM progress WHERE workflow = :workflow LIMIT :limit"
    return Select(rows.PROGRESS, sql, {"workflow": query.workflow_key}, None)


def _schedules(query: Schedules) -> Select:
    """One schedule by name or key, or a page by name."""
    filters = {"name = :name": query.name, "key = :key": query.key, "name > :after": query.after}
    terms = [term for term, value in filters.items() if value is not None]
    sql = f"SELECT {schedule_rows.SCHEDULE.select()} FROM schedule{where(terms)} ORDER BY name LIMIT :limit"
    params = {"name": query.name, "key": query.key, "after": query.after}
    return Select(schedule_rows.SCHEDULE, sql, params, query.limit)


def _suspects(_query: Suspects) -> Select:
    return Select(rows.SUSPECT, f"SELECT {rows.SUSPECT.select()} FROM suspect ORDER BY workflow LIMIT :limit", {}, None)


# Each function takes the type that is its key. The type system cannot express that, hence the cast.
_SELECTS = cast(
    dict[type[Query[Any]], Callable[[Query[Any]], Select]],
    {
        Workflows: workflows,
        TheseWorkflows: _these_workflows,
        AttachedTo: lambda query: Select(
            rows.ATTACHED, view_queries.ATTACHED_SQL, {"keys": encode(query.workflow_keys).decode()}, None
        ),
        Timers: _timers,
        WaitsOf: _waits_of,
        WaitsFor: _waits_for,
        OpenPauses: _open_pauses,
        EventsFor: _events_for,
        PendingEvents: _pending_events,
        Taken: _taken,
        Mailbox: _mailbox,
        StaleEvents: _stale_events,
        Letters: _letters,
        Sent: _sent,
        Children: _children,
        ChildIds: _child_ids,
        Backgrounds: _backgrounds,
        ProgressOf: _progress_of,
        Schedules: _schedules,
        Suspects: _suspects,
        **request_rows.SELECTS,
    },
)
