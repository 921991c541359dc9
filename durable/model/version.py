"""The version of durable. In a separate file, because the inner rooms do not import `durable/__init__.py`."""

from __future__ import annotations

VERSION = "0.1.0"
