"""Which store a command works on, and the way to it.

A missing store is never created: that would answer a misspelt path with an empty list. Nothing is opened before the
path has been checked, and what is wrong is said in one sentence, with the user who could do it.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable
from typing import Any

import click

from durable.cli.exits import NOT_FOUND, REFUSED, Refusal

if sys.platform == "win32":

    def _user(uid: int) -> str:
        return str(uid)

else:
    import pwd

    def _user(uid: int) -> str:
        """The name of a user, or the number of one without a name."""
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return str(uid)


VARIABLE = "DURABLE_STORE"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def store_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option `--store`. It may also come before the command, or from the environment."""
    return click.option(
        "--store",
        callback=_resolve,
        metavar="PATH|URL",
        help=f"The store to work on; {VARIABLE} in the environment is the default.",
    )(command)


def _resolve(context: click.Context, _option: click.Parameter, value: str | None) -> str:
    """The store of a command. Raises `click.UsageError` if none is named."""
    store = value or context.find_root().params.get("store") or os.environ.get(VARIABLE)
    if not store:
        raise click.UsageError(f"which store? Pass --store orders.db, or set {VARIABLE}")
    return str(store)


def file_of(store: str) -> str | None:
    """The path of a SQLite store; None for a store of another kind. Raises `click.UsageError` for one in memory."""
    scheme = _SCHEME.match(store)
    if scheme is None:
        return store
    if scheme[1].lower() == "sqlite":
        return store[scheme.end() :].removeprefix("/")
    if scheme[1].lower() == "memory":
        raise click.UsageError("a store in memory belongs to one process, and no command can see it; name a file")
    return None


def checked_file(store: str, *, write: bool = False) -> str | None:
    """The path of a SQLite store that exists and may be read; None for a store of another kind. Raises `Refusal`."""
    path = file_of(store)
    if path is None:
        return None
    try:
        status = os.stat(path)
    except PermissionError:
        raise Refusal(f"{path}: {_me()} may not look into its directory; {_HOW}", REFUSED) from None
    except (OSError, ValueError):
        raise Refusal(
            f"{path}: there is no such store, and none was created; name an existing one with --store or {VARIABLE}",
            NOT_FOUND,
        ) from None
    if not stat.S_ISREG(status.st_mode):
        raise Refusal(f"{path}: it is not a file; name the store itself", NOT_FOUND)
    need, verb = (os.R_OK | os.W_OK, "write to") if write else (os.R_OK, "read")
    if not os.access(path, need):
        owner = f"it belongs to {_user(status.st_uid)}"
        raise Refusal(f"{path}: {_me()} may not {verb} this store; {owner}; {_HOW}", REFUSED)
    return path


_HOW = "run the command as the user of the service, as in: sudo -u USER durable ..."


def _me() -> str:
    return f"user {_user(os.geteuid())}" if hasattr(os, "geteuid") else "this user"
