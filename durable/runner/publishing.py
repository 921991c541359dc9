"""`publish`: what a workflow shows of its progress. It is output: it writes no entry, and a body never reads it."""

from __future__ import annotations

from durable.errors import OperationMisused
from durable.runner.interpreter import Interpreter
from durable.runner.ops import STEPPING


def publish(value: object) -> None:
    """Show how far this workflow is; the last value counts. It is stored with whatever the workflow does next.

    Raises `CodecError` for a value that cannot be stored.
    """
    session = STEPPING.get()
    if not isinstance(session, Interpreter):
        raise OperationMisused("publish() works only inside a workflow body")
    session.publish(value)
