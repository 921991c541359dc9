"""`publish`: what a workflow shows of its progress. It is output: it writes no entry, and a body never reads it."""

from __future__ import annotations

from durable.runner.ambient import ambient, stepping


def publish(value: object) -> None:
    """Show how far this workflow is; the last value counts. It is stored with whatever the workflow does next.

    Raises `CodecError` for a value that cannot be stored.
    """
    session = ambient("publish")
    # A body that is being closed has not got any further.
    if not stepping("publish").closing:
        coder = session.codec.coder(type(value), f"workflow {session.who.name}: progress")
        session.published = (session.fed, coder.pack(value)[0])
