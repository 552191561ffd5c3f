"""A large etcd: `python -m bench.etcd_size [--quick] [--json FILE]`. 2 GB in ConfigMaps of 20 KB; `--quick`: 200 MB.

start_s, start_cpu_s   until the API server is ready on it
apiserver_mb           resident memory of the API server then
rewrite_mb             size of etcd's file after a quarter of all objects was written again
compact_s              compaction of that history
defragment_s           defragmentation, during which the member does not answer; in_use_mb is what is left of the file
write_ms               the longest write while compacting, and after
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import orjson

from alcove.api.ids import Key, Revision, TenantId
from alcove.api.resources import CONFIG_MAPS
from alcove.store.base import WriteOp
from alcove.store.etcd import EtcdStore
from alcove.testing.etcd import EtcdCluster
from alcove.testing.server import LocalServer
from bench.servers import cpu_seconds, resident_mb

FULL_BYTES, QUICK_BYTES = 2 << 30, 200 << 20
OBJECT_BYTES = 20_000
AT_ONCE = 20
"""Objects in one transaction."""
QUOTA = "--quota-backend-bytes=8589934592"
MAPS = "/api/v1/namespaces/default/configmaps"


def body(number: int, fill: str) -> bytes:
    metadata = {
        "name": f"m{number}",
        "namespace": "default",
        "tenant": "system",
        "uid": f"00000000-0000-4000-8000-{number:012}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    data = {"text": fill * OBJECT_BYTES}
    return orjson.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


async def write(endpoint: str, numbers: range, fill: str) -> None:
    store = await EtcdStore.open([endpoint])
    starts = iter(range(numbers.start, numbers.stop, AT_ONCE))

    async def work() -> None:
        for start in starts:
            ops = [
                WriteOp(Key(CONFIG_MAPS, TenantId("system"), "default", f"m{number}"), body(number, fill))
                for number in range(start, min(start + AT_ONCE, numbers.stop))
            ]
            await store.write(ops)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(4):
            tasks.create_task(work())
    await store.close()


def file_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("db")) / 2**20


class SlowestWrite(threading.Thread):
    """Writes until it is told to stop, and notes the longest time."""

    def __init__(self, server: LocalServer) -> None:
        super().__init__(daemon=True)
        self._server, self.is_over, self.longest_ms = server, False, 0.0

    def run(self) -> None:
        while not self.is_over:
            began = time.perf_counter()
            self._server.system.post(MAPS, {"metadata": {"name": f"w{time.time_ns()}"}})
            self.longest_ms = max(self.longest_ms, (time.perf_counter() - began) * 1_000)


class Figures(dict[str, float]):
    """Printed as they come: the whole takes minutes."""

    def __setitem__(self, name: str, value: float) -> None:
        print(f"{name:30}{value:12,.1f}", flush=True)
        super().__setitem__(name, round(value, 2))


def measure(directory: Path, size: int) -> dict[str, float]:
    count = size // OBJECT_BYTES
    figures = Figures(objects=count)
    with EtcdCluster(directory / "etcd", 1, QUOTA) as etcd:
        member = etcd.members[0]
        began = time.perf_counter()
        asyncio.run(write(member.endpoint, range(count), "x"))
        figures["fill_s"] = time.perf_counter() - began
        figures["file_mb"] = file_mb(member.folder)
        began = time.perf_counter()
        with LocalServer(directory / "server", *etcd.options()) as server:
            figures["start_s"] = time.perf_counter() - began
            figures["start_cpu_s"] = cpu_seconds(server.pid)
            figures["apiserver_mb"] = resident_mb(server.pid)
            asyncio.run(write(member.endpoint, range(count // 4), "y"))
            figures["rewrite_mb"] = file_mb(member.folder)
            writing = SlowestWrite(server)
            writing.start()
            newest = int(server.system.get(f"{MAPS}?limit=1").json["metadata"]["resourceVersion"])
            began = time.perf_counter()
            asyncio.run(compact(member.endpoint, newest))
            figures["compact_s"] = time.perf_counter() - began
            writing.is_over = True
            writing.join()
            figures["write_ms_while_compacting"] = writing.longest_ms
            began = time.perf_counter()
            command = ["etcdctl", "--endpoints", member.endpoint, "--command-timeout=300s", "defrag"]
            subprocess.run(command, check=True, capture_output=True)
            figures["defragment_s"] = time.perf_counter() - began
            figures["in_use_mb"] = file_mb(member.folder)
            assert server.system.post(MAPS, {"metadata": {"name": "after"}}).status == 201
            assert server.system.get(f"{MAPS}/m0").json["data"]["text"].startswith("y")
    return figures


async def compact(endpoint: str, upto: int) -> None:
    store = await EtcdStore.open([endpoint])
    await store.compact(Revision(upto))
    await store.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200 MB instead of 2 GB")
    parser.add_argument("--json", type=Path, help="write the figures as one flat JSON object")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = measure(Path(name), QUICK_BYTES if arguments.quick else FULL_BYTES)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")
