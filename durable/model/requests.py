"""What is stored about requests of other processes: answers for repeats, and requests that wait for an engine."""

from __future__ import annotations

import attrs

# Kept starts and events are shown with numbers above this one. No store ever gets so far.
KEPT_ABOVE = 1 << 61


@attrs.frozen(kw_only=True)
class StoredAnswer:
    """The answer to a change, under the id of its request, as JSON text. A repeat of the request gets it again."""

    request_id: str
    text: str
    at: int


@attrs.frozen(kw_only=True)
class KeptRequest:
    """A start or an event that a client has stored while no engine ran. The next engine decides it first of all.

    `operation` is its form as JSON text. Numbers ascend in the order in which requests were kept.
    """

    number: int
    request_id: str
    operation: str
    at: int
