"""Where the figures come from: cores, versions, and whether a folder lies on a disk at all."""

from __future__ import annotations

import os
import platform
import sqlite3
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_IN_MEMORY = {"tmpfs", "ramfs", "devtmpfs"}


def about(folder: Path, command: str, *, quick: bool) -> dict[str, Any]:
    """What stands above the tables."""
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "system": f"{platform.system()} {platform.machine()}",
        "file_system": file_system(folder),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "durable": _version(),
        "command": command,
        "quick": quick,
    }


def _version() -> str:
    try:
        return version("durable-engine")
    except PackageNotFoundError:
        return "from source"


def file_system(folder: Path) -> str:
    """The type of the file system that a folder lies on; empty where the machine does not say."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return ""
    real = folder.resolve()
    found = [(len(point), kind) for point, kind in mounts if real.is_relative_to(point)]
    return max(found)[1] if found else ""


def is_in_memory(folder: Path) -> bool:
    """Whether files there never reach a disk: an fsync on them costs nothing, and every figure would be false."""
    return file_system(folder) in _IN_MEMORY
