"""`engine.backup`: a thread copies the store. Neither the event loop nor the coordinator waits for it."""

from __future__ import annotations

import os
import threading
from functools import partial

import anyio.to_thread

from durable.backends.base import FileStore
from durable.engine.api.core import Core
from durable.errors import OperationMisused, WrongType


async def back_up(core: Core, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Copy the store of an engine to a file. If the caller is cancelled, the thread stops and removes its copy.

    Raises what `WorkflowEngine.backup` says, and `OperationMisused` for a store that is not a file.
    """
    core.check_open()
    # As an object: for the type checker, the annotation has already ruled out what is refused here.
    target: object = path
    if not isinstance(target, (str, os.PathLike)):
        raise WrongType("backup: path", f"must be a path, not {type(target).__name__}")
    store = core.backend
    if not isinstance(store, FileStore):
        raise OperationMisused(f"backup() needs a store in a file, but this engine works on {store!r}")
    stopped = threading.Event()
    copy = partial(store.backup, os.fsdecode(path), overwrite=overwrite, is_stopped=stopped.is_set)
    try:
        await anyio.to_thread.run_sync(copy, abandon_on_cancel=True)
    finally:
        stopped.set()
