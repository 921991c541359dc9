"""Which durable this is. A module of its own, because the inner rooms do not import the front door."""

from __future__ import annotations

VERSION = "0.1.0"
