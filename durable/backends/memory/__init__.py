"""The store in memory."""

from durable.backends.memory.store import MemoryBackend, MemoryStore

__all__ = [
    "MemoryBackend",
    "MemoryStore",
]
