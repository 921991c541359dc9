"""What clients and people share: which engine they ask, and that they ask again when it has died."""

from __future__ import annotations

from durable.model.homes import event_home, workflow_home
from durable.runner.events import event_key
from simulation.process import Process
from simulation.scenario import Act, Verb


class Caller:
    """Asks one engine at a time: that of the shard which decides what is asked for."""

    # The engine that has been asked and has not answered yet.
    _process: Process | None = None

    def __init__(self) -> None:
        self._engines: dict[int, Process] = {}

    def engine(self, shard: int) -> Process | None:
        """Who owns a shard, if somebody does and has recovered it."""
        process = self._engines.get(shard)
        return process if process is not None and process.is_ready else None

    def meet(self, shard: int, process: Process | None) -> None:
        """The engine of a shard has died, or there is a new one: what was not answered is asked again."""
        before = self._engines.pop(shard, None)
        if process is not None:
            self._engines[shard] = process
        if self._process is not None and self._process is before:
            self._process = None
            self.ask_again()

    def ask_again(self) -> None:
        """Ask the same once more, in a while."""
        raise NotImplementedError


def home_of_act(act: Act, shards: int) -> int:
    """The shard that decides an act. Whoever sends a dead letter again looks for one where its addressee lives."""
    if act.verb is Verb.FORK:
        return workflow_home(act.run, shards)
    if act.id is None:
        return event_home(act.event, event_key(act.key), shards)
    return workflow_home(act.id, shards)
