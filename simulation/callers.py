"""What clients and people have in common: they ask the right engine, and ask again if it dies before it answers."""

from __future__ import annotations

from durable.model.homes import event_home, workflow_home
from durable.runner.events import event_key
from simulation.process import Process
from simulation.scenario import Act, Verb


class Caller:
    """Makes one call at a time, to the engine of the shard that decides it."""

    # The engine that has a call of this caller and has not answered yet.
    _process: Process | None = None

    def __init__(self) -> None:
        self._engines: dict[int, Process] = {}

    def engine(self, shard: int) -> Process | None:
        """The engine that owns a shard and has recovered it, or None."""
        process = self._engines.get(shard)
        return process if process is not None and process.is_ready else None

    def meet(self, shard: int, process: Process | None) -> None:
        """The engine of a shard died (None), or a new one started. A call that was not answered is made again."""
        before = self._engines.pop(shard, None)
        if process is not None:
            self._engines[shard] = process
        if self._process is not None and self._process is before:
            self._process = None
            self.ask_again()

    def ask_again(self) -> None:
        """Make the same call again, after a while."""
        raise NotImplementedError


def home_of_act(act: Act, shards: int) -> int:
    """The shard that decides an act. A replay looks for a dead letter in the shard of the workflow it is sent to."""
    if act.verb is Verb.FORK:
        return workflow_home(act.run, shards)
    if act.id is None:
        return event_home(act.event, event_key(act.key), shards)
    return workflow_home(act.id, shards)
