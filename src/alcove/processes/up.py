"""`alcove up`, `down` and `status`: the cluster of this machine, in the background."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import orjson
import typer

from alcove.cli.connection import Connection, ConnectionFailed, load
from alcove.processes import supervisor

READY_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0


class NotUp(Exception):
    """The message says why, and where to look."""


def start(data: Path, port: int) -> bool:
    """Starts the supervisor unless it runs; returns whether it was started. Raises NotUp."""
    if supervisor.holder(data) is not None:
        return False
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    (data / "logs").mkdir(exist_ok=True)
    with (data / "logs" / "supervisor.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "alcove.processes.supervisor", str(data), str(port)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    _wait_ready(data, process)
    return True


def _wait_ready(data: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise NotUp(f"the supervisor ended; see {data / 'logs' / 'supervisor.log'}")
        if _is_ready(data):
            return
        time.sleep(0.1)
    raise NotUp(
        f"the API server is not ready after {READY_SECONDS_MAX:.0f} s; see {data / 'logs' / 'apiserver.log'}"
    )


def _is_ready(data: Path) -> bool:
    try:
        Connection(load(data / "admin.kubeconfig")).request("GET", "/api/v1/namespaces/default")
    except (ConnectionFailed, ValueError):
        return False
    return True


def stop(data: Path) -> bool:
    """Ends the supervisor and everything under it; returns whether it ran. Raises NotUp if it does not end."""
    pid = supervisor.holder(data)
    if pid is None:
        return False
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS_MAX
    while supervisor.holder(data) is not None:
        if time.monotonic() > deadline:
            raise NotUp(f"the supervisor (pid {pid}) does not end; `kill -9 {pid}` ends it")
        time.sleep(0.05)
    return True


def running(data: Path) -> dict[str, int]:
    """The components and their pids; empty if the cluster is down."""
    if supervisor.holder(data) is None:
        return {}
    try:
        told: dict[str, int] = orjson.loads((data / "components.json").read_bytes())
    except FileNotFoundError:
        return {}
    return told


def describe(data: Path) -> None:
    """What to type next."""
    kubeconfig = data / "admin.kubeconfig"
    typer.echo(f"The API serves {load(kubeconfig).server}; logs are in {data / 'logs'}.")
    typer.echo("\nNext, as ring0:\n")
    typer.echo(f"  export KUBECONFIG={kubeconfig}")
    typer.echo("  kubectl apply -f examples/tenant.yaml")
    typer.echo("  .venv/bin/alcove tenant kubeconfig acme --output acme.kubeconfig")
    typer.echo("  kubectl --kubeconfig acme.kubeconfig get namespaces,networks\n")
