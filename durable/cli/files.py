"""`backup`, `restore` and `migrate`: the store as a file. None of them needs an engine, or any code of the service."""

from __future__ import annotations

import os
import sys

import click

from durable.backends.sqlite import maintenance
from durable.cli.exits import REFUSED, Refusal
from durable.cli.output import say
from durable.cli.store import checked_file, file_of, store_option
from durable.cli.words import plural
from durable.model.redaction import redacted


def _file(store: str, what: str, *, write: bool = False) -> str:
    """The file of a store. Raises `Refusal` for a store of another kind."""
    path = checked_file(store, write=write)
    if path is None:
        raise Refusal(f"{redacted(store)}: {what} works on SQLite files only; use the tools of that database", REFUSED)
    return path


@click.command()
@click.argument("target", type=click.Path(dir_okay=False))
@click.option("--overwrite", is_flag=True, help="Replace TARGET if it exists.")
@store_option
def backup(target: str, *, overwrite: bool, store: str) -> None:
    """Copy the store to TARGET, while a service uses it or not. The copy shows one moment, and opens as a store.

    \b
    durable backup /backups/orders-$(date +%F).db
    """
    path = _file(store, "backup")
    if os.path.lexists(target) and not overwrite:
        raise Refusal(f"{target}: it already exists; pass --overwrite to replace it", REFUSED)
    maintenance.back_up(path, target, overwrite=overwrite)
    say(f"{path} is copied to {target} ({os.path.getsize(target):,} bytes)")


@click.command()
@click.argument("backup", type=click.Path())
@click.option("--overwrite", is_flag=True, help="Replace the store if it exists. What it holds is lost.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before replacing a store.")
@store_option
def restore(backup: str, *, overwrite: bool, yes: bool, store: str) -> None:
    """Put BACKUP in the place of the store. The service must be stopped; BACKUP stays where it is.

    \b
    durable restore /backups/orders-2026-03-01.db
    """
    source = _file(backup, "restore")
    path = file_of(store)
    if path is None:
        raise Refusal(f"{redacted(store)}: restore works on SQLite files only; use the tools of that database", REFUSED)
    if overwrite and os.path.exists(path) and not yes:
        if not sys.stdin.isatty():
            raise click.UsageError(f"{path} would be replaced, and nobody can be asked: pass --yes if you are sure")
        click.confirm(f"Replace {path} by {source}? What it holds now is lost.", abort=True, err=True)
    maintenance.restore(source, path, overwrite=overwrite)
    say(f"{path} is restored from {source}; start the service again")


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--sql", "as_sql", is_flag=True, help="Only print the statements.")
@store_option
def migrate(*, dry_run: bool, as_sql: bool, store: str) -> None:
    """Bring the schema of a store up to date. An engine does the same when it starts.

    \b
    durable migrate --dry-run
    durable migrate --sql
    durable migrate
    """
    path = _file(store, "migrate", write=not (dry_run or as_sql))
    if as_sql:
        for statement in maintenance.migration_sql(path):
            click.echo(f"{statement};")
        return
    done = maintenance.plan(path) if dry_run else maintenance.migrate(path)
    if not done.steps:
        click.echo(f"{path}: schema version {done.before} is up to date")
        return
    verb = "would run" if dry_run else "ran"
    click.echo(f"{path}: schema version {done.before} -> {done.after}, {verb} {plural(len(done.steps), 'migration')}:")
    for step in done.steps:
        click.echo(f"  {step}")
