"""`worker`: an engine as a process, for systemd, containers and supervisors.

The process tells its supervisor what it does (`notify`): ready once the engine has recovered, its counts as a status
text, and a watchdog beat for each answer of the coordinator. So a coordinator that is stuck stops the beat, and systemd
starts the process again. SIGTERM and SIGINT let activities finish for `EngineConfig.drain`; a second one does not wait.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.abc
import click

from durable.cli.exits import DO_NOT_RESTART, DONE, RESTART
from durable.cli.loading import load_attribute, look_in
from durable.cli.notify import Notifier
from durable.engine.api.engine import WorkflowEngine
from durable.errors import DurableError, StorageUnavailable, StoreFenced, StoreInUse
from durable.model.redaction import redacted
from durable.model.statuses import WorkflowStatus

_log = logging.getLogger("durable")
# How often the engine is asked whether it is well, if no watchdog asks for more.
_BEAT = 5.0
# These pass: the other engine stops, the disk gets space. Anything else about a store needs a person.
_MAY_PASS = (StoreInUse, StorageUnavailable, StoreFenced)
_COUNTED = (WorkflowStatus.RUNNING, WorkflowStatus.SUSPENDED, WorkflowStatus.PARKED)


@click.command()
@click.argument("engine", metavar="MODULE:ENGINE")
@click.option("--loop", type=click.Choice(("asyncio", "trio")), default="asyncio", show_default=True)
@click.option("--app-dir", default=".", show_default=True, metavar="DIR", help="Where MODULE is imported from.")
@click.option("--quiet", is_flag=True, help="Do not log to stderr.")
def worker(engine: str, *, loop: str, app_dir: str, quiet: bool) -> int:
    """Run an engine until SIGTERM or SIGINT: a WorkflowEngine in a module, or a function without parameters that makes
    one.

    Exit codes: 0 stopped in order, 1 start it again, 2 do not: it cannot work before somebody has fixed it.

    \b
    durable worker shop.service:engine
    durable worker shop.service:make_engine --loop trio
    """
    if not quiet:
        logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    look_in(app_dir)
    made = make_engine(engine)
    try:
        return anyio.run(run, made, Notifier.of(os.environ), backend=loop)
    except (Exception, BaseExceptionGroup) as error:
        return code_after(error)


def make_engine(spec: str) -> WorkflowEngine:
    """The engine that `module:attribute` names, or that the function of this name makes. Raises `click.UsageError`."""
    value = load_attribute(spec)
    if callable(value) and not isinstance(value, WorkflowEngine):
        try:
            value = value()
        except Exception as error:
            raise click.UsageError(f"{spec}() raised {type(error).__name__}: {redacted(str(error))}") from error
    if not isinstance(value, WorkflowEngine):
        raise click.UsageError(f"{spec}: expected a WorkflowEngine or a function that makes one, got {value!r:.200}")
    return value


async def run(engine: WorkflowEngine, notifier: Notifier) -> int:
    """Run the engine until a signal comes or the store is lost. Returns 0; raises what made the engine fail."""
    notifier.status("recovering")
    async with engine, anyio.create_task_group() as tasks:
        stopping = anyio.Event()
        tasks.start_soon(_on_signals, engine, notifier, stopping)
        notifier.ready()
        try:
            await _beat(engine, notifier, stopping)
        finally:
            tasks.cancel_scope.cancel()
    return DONE


async def _on_signals(engine: WorkflowEngine, notifier: Notifier, stopping: anyio.Event) -> None:
    """Drain on the first signal, and stop at once on the second."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            if stopping.is_set():
                _log.warning("%s again: stopping without waiting for activities", number.name)
                await engine.shutdown(drain=0)
                return
            _log.info("%s: letting activities finish", number.name)
            notifier.stopping()
            stopping.set()


async def _beat(engine: WorkflowEngine, notifier: Notifier, stopping: anyio.Event) -> None:
    """Ask the coordinator again and again, and tell the supervisor. Then drain. Raises what made the engine fail."""
    interval = min(_BEAT, notifier.beat_every or _BEAT)
    while not stopping.is_set():
        notifier.status(await status_text(engine))
        notifier.alive()
        with anyio.move_on_after(interval):
            await stopping.wait()
    await _keep_alive(notifier, interval, engine.shutdown)


async def _keep_alive(notifier: Notifier, interval: float, shutdown: Callable[[], Awaitable[Any]]) -> None:
    """Shut down. Activities may take longer to finish than the watchdog waits, so it is fed meanwhile."""
    async with anyio.create_task_group() as tasks:

        async def feed() -> None:
            while True:
                notifier.alive()
                await anyio.sleep(interval)

        tasks.start_soon(feed)
        await shutdown()
        tasks.cancel_scope.cancel()


async def status_text(engine: WorkflowEngine) -> str:
    """The counts of unfinished runs. Every answer comes from the coordinator's thread."""
    counts = [f"{await engine.runs.count(status=status):,} {status.value}" for status in _COUNTED]
    return ", ".join(counts)


def code_after(error: BaseException) -> int:
    """The exit code after an error that ended the engine: whether starting it again may help. Of a group, the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if not isinstance(error, Exception):
        raise error
    may_pass = isinstance(error, (*_MAY_PASS, OSError)) or not isinstance(error, DurableError)
    advice = "start it again" if may_pass else "it cannot work before this is fixed"
    click.echo(f"Error: {type(error).__name__}: {redacted(str(error))} ({advice})", err=True)
    return RESTART if may_pass else DO_NOT_RESTART
