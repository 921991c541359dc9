"""The environments of the peers: one for each in bench/.peers, installed from the package registries when needed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ENVIRONMENTS = Path(__file__).parent / ".peers"
PACKAGES = {
    "dbos": ("dbos",),
    "edda": ("edda-framework",),
    "restate": ("restate-sdk[serde]", "hypercorn"),
}
# Servers that come from npm.
SERVERS = {"restate": "@restatedev/restate-server"}
PATIENCE = 300


class PeerMissing(Exception):
    """A peer cannot run here. The message says why."""


# Peers that could not be installed, and why. They are not tried again.
_missing: dict[str, PeerMissing] = {}


def python_of(peer: str) -> str:
    """The interpreter of a peer's environment, which is made on first use. Raises `PeerMissing`."""
    folder = ENVIRONMENTS / peer
    # Written last: an environment without it is incomplete, and is made again.
    stamp = folder / "complete"
    if peer in _missing:
        raise _missing[peer]
    if not stamp.exists():
        print(f"making the environment of {peer}", flush=True)
        try:
            _make(peer, folder)
        except PeerMissing as error:
            _missing[peer] = error
            raise
        stamp.write_text("")
    return str(folder / "bin" / "python")


def _make(peer: str, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    call("venv", [sys.executable, "-m", "venv", str(folder)])
    call("pip", [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *PACKAGES[peer]])
    if peer in SERVERS:
        _install_server(peer, folder)


def _install_server(peer: str, folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise PeerMissing(f"npm is missing, and the server of {peer} comes from there")
    # No install scripts: the server needs none, and a dependency has one that reports the installation.
    call("npm", [npm, "install", "--prefix", str(folder), "--ignore-scripts", "--no-audit", SERVERS[peer]])


def call(name: str, command: list[str]) -> None:
    """Run an installer. Raises `PeerMissing` with its last line of output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise PeerMissing(f"{name} did not come back within {PATIENCE} s") from None
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines()
        raise PeerMissing(f"{name} failed: {words[-1].strip()[:300] if words else 'it said nothing'}")
