"""Where the figures come from: cores, versions, and whether a folder is on a disk at all."""

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
    """The facts above the tables, as the first line of the results."""
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
    """The type of a folder's file system; empty if the machine has no /proc/mounts."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return ""
    real = folder.resolve()
    # The longest mount point is the closest one.
    above = [(len(point), kind) for point, kind in mounts if real.is_relative_to(point)]
    return max(above)[1] if above else ""


def is_in_memory(folder: Path) -> bool:
    """Whether files there never reach a disk. An fsync would cost nothing there, and every figure would be wrong."""
    return file_system(folder) in _IN_MEMORY
