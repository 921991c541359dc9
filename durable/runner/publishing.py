"""`publish`: shows the progress of a workflow. It is only output: it writes no entry, and a body cannot read it."""

from __future__ import annotations

from durable.runner.ambient import ambient, stepping


def publish(value: object) -> None:
    """Show how far this workflow is. A new value replaces the last one; it is stored with the workflow's next step.

    Raises `CodecError` for a value that cannot be stored.
    """
    session = ambient("publish")
    # The `finally` of a body that is being closed is not progress.
    if not stepping("publish").closing:
        coder = session.codec.coder(type(value), f"workflow {session.who.name}: progress")
        session.published = (session.fed, coder.pack(value)[0])
