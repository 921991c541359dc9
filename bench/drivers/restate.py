"""Restate: its server, and a service with its Python SDK behind Hypercorn, on this machine with their defaults."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version
from pathlib import Path

from bench.drivers.loopback import HOST, Client, HttpFailed

PATIENCE = 60.0
# When a call has returned, the workflow is in the server's log. Its body reaches the wait this many seconds later.
SETTLE_FEW, SETTLE_MANY = 0.2, 3.0


class RestateDriver:
    """A server with its service registered."""

    def __init__(self, ingress: Client, pids: tuple[int, ...], settings: str) -> None:
        self._ingress = ingress
        self.pids = pids
        self.settings = settings

    async def run(self, id: str, count: int) -> None:
        assert json.loads(await self._ingress.call("POST", f"/steps/{id}/run", b"%d" % count)) == count

    async def start_waiting(self, id: str) -> str:
        await self._ingress.call("POST", f"/waiter/{id}/run/send", b"0")
        return f"waiter/{id}"

    async def start_sleeping(self, id: str, seconds: float) -> str:
        await self._ingress.call("POST", f"/sleeper/{id}/run/send", json.dumps(seconds).encode())
        return f"sleeper/{id}"

    async def settle(self, waiting: int) -> None:
        await asyncio.sleep(SETTLE_FEW if waiting < 50 else SETTLE_MANY)

    async def send(self, id: str) -> None:
        await self._ingress.call("POST", f"/waiter/{id}/go", b"1")

    async def result(self, handle: str) -> None:
        await self._ingress.call("GET", f"/restate/workflow/{handle}/attach")

    def handle(self, id: str) -> str:
        return f"waiter/{id}"


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[RestateDriver]:
    """A server on a folder, which may hold the state of an earlier one."""
    ports, is_new = _ports(folder)
    binary = _binary()
    environment = _environment(folder, ports)
    with _process(folder, "server", [str(binary), "--no-logo"], environment) as server:
        command = [sys.executable, "-m", "hypercorn", "--bind", f"{HOST}:{ports['service']}"]
        command.append("bench.drivers.restate_service:app")
        with _process(folder, "service", command, dict(os.environ)) as service:
            ingress, admin = Client(ports["ingress"]), Client(ports["admin"])
            await _until(admin, "GET", "/health")
            if is_new:
                uri = {"uri": f"http://{HOST}:{ports['service']}"}
                await _until(admin, "POST", "/deployments", json.dumps(uri).encode())
            await _until(ingress, "POST", f"/steps/ready-{time.monotonic_ns()}/run", b"1")
            yield RestateDriver(ingress, (server, service), _settings(binary, environment))
            ingress.close()
            admin.close()


def _ports(folder: Path) -> tuple[dict[str, int], bool]:
    """Free ports, and whether they are new: a later server on the same folder uses those of the first one."""
    path = folder / "ports.json"
    if path.exists():
        return json.loads(path.read_text()), False
    sockets = {name: socket.create_server((HOST, 0)) for name in ("node", "ingress", "admin", "service")}
    ports = {name: server.getsockname()[1] for name, server in sockets.items()}
    for server in sockets.values():
        server.close()
    path.write_text(json.dumps(ports))
    return ports, True


def _binary() -> Path:
    binaries = sorted(Path(sys.prefix).glob("node_modules/@restatedev/restate-server-*/bin/restate-server"))
    if not binaries:
        raise RuntimeError("npm has not installed a server for this machine")
    return binaries[0]


def _environment(folder: Path, ports: dict[str, int]) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", ""),
        "RESTATE_NODE_NAME": "bench",
        "RESTATE_BASE_DIR": str(folder / "data"),
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_BIND_IP": HOST,
        "RESTATE_ADVERTISED_HOST": HOST,
        "RESTATE_BIND_ADDRESS": f"{HOST}:{ports['node']}",
        "RESTATE_INGRESS__BIND_ADDRESS": f"{HOST}:{ports['ingress']}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"{HOST}:{ports['admin']}",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_LOG_FILTER": "error",
    }


def _settings(binary: Path, environment: dict[str, str]) -> str:
    dump = subprocess.run(
        [str(binary), "--dump-config"], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    ).stdout
    lines = {line.strip() for line in dump.splitlines() if "disable-wal" in line and "compression" not in line}
    name = subprocess.run([str(binary), "--version"], capture_output=True, text=True, timeout=PATIENCE, check=True)
    return f"{name.stdout.strip()}, restate-sdk {version('restate-sdk')}, RocksDB, {', '.join(sorted(lines))}"


@contextmanager
def _process(folder: Path, name: str, command: list[str], environment: dict[str, str]) -> Iterator[int]:
    """A process that runs while the block does; gives its id."""
    with (folder / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
        try:
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


async def _until(client: Client, method: str, path: str, body: bytes = b"") -> None:
    """Repeat a call until it succeeds."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            await client.call(method, path, body)
            return
        except HttpFailed:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.02)
