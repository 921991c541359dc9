"""The checks: from facts about a store to findings. Pure; `CHECKS` is the list."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from durable.backends.sqlite.survey import LATE, Contents, Files, Group
from durable.cli.output import visible
from durable.cli.words import ago, duration, plural
from durable.model.clock import SECOND, to_datetime

_MB = 1 << 20
# A log is checkpointed at 16 MB; one of this size was not for a long time.
LOG_MAX = 256 * _MB
# Below this, or below the size of the store, a backup or a checkpoint may not fit.
FREE_LEAST = 512 * _MB
FREE_SHARE_LEAST = 0.03
# Clocks of one machine do not differ. This much may come from a step of NTP.
AHEAD_MAX = 5 * SECOND


@attrs.frozen(kw_only=True)
class Finding:
    """Something that is wrong. `code` names the check, `ids` are a few of the runs or rows concerned."""

    code: str
    what: str
    do: str
    count: int = 1
    ids: tuple[str, ...] = ()


@attrs.frozen
class Facts:
    """What the checks look at. `contents` is None if the rows cannot be read with this version.

    `silence` is how many seconds the engine was given for an answer and did not use; None if it answered, or if there
    is nobody to ask.
    """

    files: Files
    contents: Contents | None
    silence: float | None = None


def diagnose(facts: Facts) -> list[Finding]:
    """All findings, in the order in which they should be treated."""
    return [finding for check in CHECKS for finding in check(facts)]


def old_schema(facts: Facts) -> Iterator[Finding]:
    """The store is from an earlier version."""
    version, known = facts.files.schema_version, facts.files.known_version
    if version < known:
        yield Finding(
            code="old-schema",
            what=f"the store has schema version {version}, and this durable writes {known}",
            do="back it up, then durable migrate; an engine of this version also migrates it when it starts",
        )


def damage(facts: Facts) -> Iterator[Finding]:
    """SQLite finds the file damaged."""
    if facts.contents is not None and facts.contents.damage not in (None, "ok"):
        yield Finding(
            code="damaged",
            what=f"the file is damaged: {facts.contents.damage}",
            do="stop the service, keep a copy of the files, and durable restore the last backup",
        )


def no_space(facts: Facts) -> Iterator[Finding]:
    """The disk is nearly full."""
    files = facts.files
    least = min(max(FREE_LEAST, files.size), FREE_SHARE_LEAST * files.disk_size + files.size)
    if files.disk_free < least:
        yield Finding(
            code="no-space",
            what=f"only {_bytes(files.disk_free)} free on the disk of {files.path}, which has {_bytes(files.size)}",
            do="free space now: an engine that cannot write stops. durable purge --older-than 30d removes old runs",
        )


def nobody_runs_it(facts: Facts) -> Iterator[Finding]:
    """There is work, and no engine."""
    contents = facts.contents
    if contents is None or facts.files.holder is not None:
        return
    waiting = contents.by_status.get("running", 0) + contents.by_status.get("suspended", 0)
    if waiting:
        crashed = "" if contents.is_clean else ", and the last one did not stop in order"
        yield Finding(
            code="no-engine",
            what=f"no engine runs on this store{crashed}: {plural(waiting, 'unfinished run')} cannot continue",
            do="start the service; if it does not stay up, its log says why",
            count=waiting,
        )


def engine_does_not_answer(facts: Facts) -> Iterator[Finding]:
    """There is an engine, and it is stuck."""
    if facts.silence is not None:
        yield Finding(
            code="stuck-engine",
            what=f"the engine ({facts.files.holder}) has not answered within {facts.silence:g} s",
            do="its log names a body that does not return; if it says nothing, restart the service: nothing is lost",
        )


def old_log(facts: Facts) -> Iterator[Finding]:
    """The write-ahead log has grown."""
    if facts.files.log_size > LOG_MAX:
        yield Finding(
            code="old-log",
            what=f"the log {facts.files.path}-wal has {_bytes(facts.files.log_size)} and is not being emptied",
            do="find the program that reads the file in a long transaction, such as sqlite3 or a backup, and close it",
        )


def clock_behind(facts: Facts) -> Iterator[Finding]:
    """Something was recorded in the future."""
    contents = facts.contents
    if contents is not None and contents.latest is not None and contents.latest > contents.now + AHEAD_MAX:
        ahead = to_datetime(contents.latest) - to_datetime(contents.now)
        yield Finding(
            code="clock",
            what=f"the newest run was started {duration(ahead)} in the future: the clock of this machine was set back",
            do="check the clock (timedatectl); timers that were set by the other clock fire late by as much",
        )


def parked(facts: Facts) -> Iterator[Finding]:
    """Runs are parked."""
    for group in facts.contents.parked if facts.contents else ():
        reason = group.about or "unknown reason"
        yield Finding(
            code="parked",
            what=f"{plural(group.count, 'run')} parked: {reason}",
            do=_FOR_PARKED.get(group.about, f"durable show {_first(group)} says why"),
            count=group.count,
            ids=group.examples,
        )


_FOR_PARKED = {
    "diverged": "deploy code that fits their histories (durable check-replay finds all); then durable retry them",
    "unknown code": "deploy code that has these workflows; they continue by themselves",
    "unreadable": "deploy code that reads the stored values, or repair the rows from a backup; then durable retry them",
    "crashed": "their bodies or activities ended the process: fix that, then durable retry them",
}


def suspects(facts: Facts) -> Iterator[Finding]:
    """Runs are on trial after a crash."""
    group = facts.contents.suspects if facts.contents else None
    if group is not None:
        yield Finding(
            code="suspects",
            what=f"{plural(group.count, 'run')} on trial: the process died while their activities ran",
            do="the service's log says why it died; a run that causes a third crash is parked",
            count=group.count,
            ids=group.examples,
        )


def overdue(facts: Facts) -> Iterator[Finding]:
    """Timers are late although an engine runs."""
    group = facts.contents.overdue if facts.contents else None
    if group is not None and facts.files.holder is not None and facts.contents is not None:
        since = (
            ""
            if group.oldest is None
            else f", the first {ago(to_datetime(group.oldest), to_datetime(facts.contents.now))}"
        )
        yield Finding(
            code="overdue",
            what=f"{plural(group.count, 'run')} should have woken more than {LATE // SECOND} s ago{since}",
            do=f"the engine ({facts.files.holder}) is stuck or overloaded: its log names a body that does not return",
            count=group.count,
            ids=group.examples,
        )


def silent(facts: Facts) -> Iterator[Finding]:
    """Runs are busy and have recorded nothing for long."""
    group = facts.contents.silent if facts.contents else None
    if group is not None and facts.files.holder is not None:
        yield Finding(
            code="stuck",
            what=f"{plural(group.count, 'run')} running for more than an hour without recording anything",
            do=f"durable show {_first(group)} has the activity; if it hangs, give it a timeout, or cancel the run",
            count=group.count,
            ids=group.examples,
        )


def dead_letters(facts: Facts) -> Iterator[Finding]:
    """There are dead letters."""
    for group in facts.contents.dead_letters if facts.contents else ():
        yield Finding(
            code="dead-letters",
            what=f"{plural(group.count, 'dead letter')} of event {visible(group.about)}",
            do="durable dead-letters says why; replay them to another run, or remove them",
            count=group.count,
            ids=group.examples,
        )


def ignored_events(facts: Facts) -> Iterator[Finding]:
    """Events were sent that nobody takes."""
    for group in facts.contents.ignored_events if facts.contents else ():
        yield Finding(
            code="nobody-takes",
            what=f"no run takes {plural(group.count, 'event')} {visible(group.about)}, sent more than an hour ago",
            do="is the name or the key misspelt? durable events lists them, durable events remove deletes one",
            count=group.count,
            ids=group.examples,
        )


def _first(group: Group) -> str:
    return visible(group.examples[0]) if group.examples else "ID"


def _bytes(count: int) -> str:
    """A number of bytes in words."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1024:
            return f"{count:,} {unit}"
        count //= 1024
    return f"{count:,} TB"


Check = Callable[[Facts], Iterator[Finding]]
# What loses data or stops everything comes first.
CHECKS: tuple[Check, ...] = (
    damage, no_space, old_schema, nobody_runs_it, engine_does_not_answer, clock_behind, overdue, parked, suspects,
    silent, old_log, dead_letters, ignored_events,
)  # fmt: skip
