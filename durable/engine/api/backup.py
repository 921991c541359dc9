"""`engine.backup`: a thread copies the store. Neither the event loop nor the coordinator waits for it."""

from __future__ import annotations

import os
import threading
from functools import partial

import anyio.to_thread

from durable.backends.base import Backend, FileStore
from durable.engine.api.core import Core
from durable.engine.api.standby import Standby
from durable.errors import EngineClosed, OperationMisused, WrongType

# Seconds between two tries, while the store passes from one process to another.
_PAUSE = 0.05


async def back_up(life: Core | Standby, store: Backend, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Copy the store of an engine to a file. If the caller is cancelled, the thread stops and removes its copy.

    It begins again if this process takes the store over meanwhile, which ends the copy.

    Raises what `WorkflowEngine.backup` says, and `OperationMisused` for a store that is not a file.
    """
    life.check_open()
    # As an object: for the type checker, the annotation has already ruled out what is refused here.
    target: object = path
    if not isinstance(target, (str, os.PathLike)):
        raise WrongType("backup: path", f"must be a path, not {type(target).__name__}")
    if not isinstance(store, FileStore):
        raise OperationMisused(f"backup() needs a store in a file, but this engine works on {store!r}")
    while True:
        if await _copied(life, store, os.fsdecode(path), overwrite=overwrite):
            return
        await anyio.sleep(_PAUSE)


async def _copied(life: Core | Standby, store: FileStore, path: str, *, overwrite: bool) -> bool:
    """Copy the store. Returns whether the copy was finished; raises `EngineClosed` if the engine is closed."""
    stopped = threading.Event()
    copy = partial(store.backup, path, overwrite=overwrite, is_stopped=stopped.is_set)
    try:
        await anyio.to_thread.run_sync(copy, abandon_on_cancel=True)
    except EngineClosed:
        life.check_open()
        return False
    finally:
        stopped.set()
    return True
