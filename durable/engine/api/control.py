"""The socket of an open engine: opened after recovery, closed first at a shutdown.

Knows the life of an engine and the server; how a client is served is the business of `engine.remote`.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import anyio
import anyio.abc

from durable.backends.base import Backend, Held, HeldStore
from durable.engine.config import EngineConfig
from durable.engine.host.threads import make_threads
from durable.engine.remote.address import listen, places
from durable.engine.remote.guest import Answer
from durable.engine.remote.server import ControlServer
from durable.model.codec import Codec
from durable.model.ids import digest
from durable.model.registry import Registry
from durable.runner.definitions import WorkflowDef

_log = logging.getLogger("durable")
# Each opening of a store has a socket of its own. Its name is short, because its path must be.
_NAME_LENGTH = 8


class Control:
    """Serves an engine to other processes, from `start` until `stop` or the end of the engine."""

    def __init__(
        self,
        answer: Answer,
        registry: Registry[WorkflowDef[Any, Any]],
        codec: Codec,
        config: EngineConfig,
        incarnation: str,
    ) -> None:
        self._answer = answer
        self._registry = registry
        self._codec = codec
        self._config = config
        self._name = digest(incarnation)[:_NAME_LENGTH]
        self._threads = make_threads()
        self._server: ControlServer | None = None
        self._stopped = anyio.Event()

    async def start(self, tasks: anyio.abc.TaskGroup, backend: Backend) -> None:
        """Listen, and announce where. A socket that cannot be opened is logged: the engine works without it."""
        if not isinstance(backend, HeldStore) or (held := backend.held) is None:
            return
        try:
            server = self._listen(held) if self._config.control else None
        except OSError as error:
            _log.warning("other processes cannot reach this engine, because it has no socket: %s", error)
            server = None
        if server is None:
            await self._announce(held, "")
            self._threads.close()
            return
        try:
            await tasks.start(self._run, server)
        except BaseException:
            server.close()
            raise
        self._server = server
        await self._announce(held, server.path)

    async def _announce(self, held: Held, path: str) -> None:
        """Record where this engine listens. In a thread, because it waits for the disk."""
        await self._threads.run(partial(held.announce, path), anyio.CancelScope())

    def _listen(self, held: Held) -> ControlServer:
        return ControlServer(
            listen(places(held.path), self._name),
            self._answer,
            self._registry,
            self._codec,
            self._threads,
            max_payload_bytes=self._config.max_payload_bytes,
        )

    async def _run(self, server: ControlServer, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        task_status.started()
        try:
            await server.run()
        except Exception:
            # A bug of ours must not end the engine.
            _log.exception("the socket of the engine failed; other processes cannot reach it any more")
        finally:
            self._threads.close()
            self._stopped.set()

    def end(self) -> None:
        """Accept nothing more, and say goodbye. From here on no client gets another answer."""
        if self._server is not None:
            self._server.stop()

    async def stop(self) -> None:
        """`end`, and wait until every connection is closed."""
        if self._server is not None:
            self._server.stop()
            await self._stopped.wait()
