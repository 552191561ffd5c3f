"""How the processes of a control plane start with many objects: `python -m bench.start [--objects N] [--json FILE]`.

A store with the objects of 41,665 tenants, a million (`bench/many_tenants.py`), and the API server, controllers and scheduler as a
user starts them. Of each: seconds from the start of its process, its CPU time with that of its children, and resident memory.

apiserver_answers_s    until it answers anything; clients are told to wait
apiserver_ready_s      until it has answered a request for an object
controllers_s          until they lead, with everything read; `controllers_idle_s`: until nothing is left to do
scheduler_s            the same
restart_*              the API server is stopped and started again: the CPU time that this costs the others, whose
                       watches resume; with a list they would need what their start took
"""

from __future__ import annotations

import argparse
import json
import ssl
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop

from alcove.testing.controlplane import LocalControllers
from alcove.testing.local import LocalProcess
from alcove.testing.scheduler import LocalScheduler
from alcove.testing.server import LocalServer
from bench.growth_costs import CpuMeter
from bench.many_tenants import ORIGINAL, fill
from bench.servers import compile_package, cpu_seconds, resident_mb

OBJECTS = 1_000_000
POLL_SECONDS = 0.05
IDLE_SECONDS_MAX = 600.0
Figures = dict[str, float]


def _answers(port: int) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        urllib.request.urlopen(f"https://127.0.0.1:{port}/livez", context=context, timeout=30).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def start_server(server: LocalServer) -> Figures:
    began = time.perf_counter()
    answered: list[float] = []

    def poll() -> None:
        while not _answers(server.address[1]):
            time.sleep(POLL_SECONDS)
        answered.append(time.perf_counter() - began)

    polling = threading.Thread(target=poll)
    polling.start()
    server.start()
    assert server.system.get(f"/api/v1/tenants/{ORIGINAL}/namespaces/default").status == 200
    ready = time.perf_counter() - began
    polling.join()
    return {"answers_s": answered[0], "ready_s": ready, **_used(server.pid)}


def _used(pid: int) -> Figures:
    return {"cpu_s": cpu_seconds(pid), "mb": resident_mb(pid)}


@contextmanager
def started(process: LocalProcess, figures: Figures, name: str) -> Iterator[None]:
    """Starts a process that leads, and stops it at the end of the block."""
    began = time.perf_counter()
    with process:
        figures[f"{name}_s"] = time.perf_counter() - began
        idle(process)
        figures[f"{name}_idle_s"] = time.perf_counter() - began
        figures |= {f"{name}_{each}": value for each, value in _used(process.pid).items()}
        yield


def idle(*processes: LocalProcess) -> None:
    uvloop.run(CpuMeter(lambda: [each.pid for each in processes]).idle(IDLE_SECONDS_MAX))


def measure(directory: Path, objects: int) -> Figures:
    data = directory / "server"
    figures: Figures = {"objects": objects, "tenants": fill(data, objects)}
    figures["store_mb"] = (data / "store.db").stat().st_size / 2**20
    server = LocalServer(data)
    figures |= {f"apiserver_{each}": value for each, value in start_server(server).items()}
    print(figures, flush=True)
    controllers = LocalControllers(server, directory)
    scheduler = LocalScheduler(server.admin_kubeconfig, directory)
    try:
        with started(controllers, figures, "controllers"), started(scheduler, figures, "scheduler"):
            print(figures, flush=True)
            idle(server, controllers, scheduler)
            before = [cpu_seconds(each.pid) for each in (controllers, scheduler)]
            server.stop()
            figures |= {f"restart_apiserver_{each}": value for each, value in start_server(server).items()}
            idle(server, controllers, scheduler)
            after = [cpu_seconds(each.pid) for each in (controllers, scheduler)]
            figures["restart_controllers_cpu_s"] = after[0] - before[0]
            figures["restart_scheduler_cpu_s"] = after[1] - before[1]
    finally:
        server.stop()
    return {name: round(value, 2) for name, value in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--objects", type=int, default=OBJECTS, help="so many objects instead of a million")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    compile_package()
    with tempfile.TemporaryDirectory(prefix="alcove-bench-") as name:
        figures = measure(Path(name), options.objects)
    for name, value in figures.items():
        print(f"{name:<32} {value}")
    if options.json:
        options.json.write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
