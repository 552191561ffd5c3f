"""What each process of sharded controllers needs: `python -m bench.shards [--quick] [--json FILE]`.

An API server and the controllers as 1, 2 and 4 processes, each with a shard of the tenants, and this program as a client that
watches. Tenants are made, all at once. For each process: CPU time from the first request until all are idle, and resident memory,
with the tenants there, in addition to that of a process that has just started. The first process has ring0's shard.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvloop
from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.client import kubeconfig
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.testing.controlplane import LocalControllers
from alcove.testing.server import LocalServer
from bench.growth_costs import CpuMeter
from bench.servers import cpu_seconds, resident_mb
from bench.tenants import Ready, all_at_once

TENANTS = 500


class Processes(Struct, frozen=True):
    server: LocalServer
    controllers: list[LocalControllers]
    """In the order of their shards."""

    def pids(self) -> list[int]:
        return [self.server.pid, *(each.pid for each in self.controllers)]


@contextmanager
def processes(shards: int) -> Iterator[Processes]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="alcove-bench-")))
        server = stack.enter_context(LocalServer(directory / "server"))
        started = [
            LocalControllers(server, directory / str(number), "--shards", str(shards))
            for number in range(shards)
        ]
        for each in started:
            each.start()
            stack.callback(each.stop)
        # Each takes a shard at once if there is one that nobody has.
        indexes = [_shard_in(each.wait()) for each in started]
        assert sorted(indexes) == list(range(shards)), indexes
        yield Processes(server, [started[indexes.index(index)] for index in range(shards)])


def _shard_in(line: str) -> int:
    """The shard that a process says it leads."""
    _, is_sharded, shard = line.partition("leading shard ")
    return int(shard.partition("/")[0]) if is_sharded else 0


async def measure(running: Processes, count: int) -> dict[str, float]:
    pool = HttpPool(kubeconfig.load(running.server.admin_kubeconfig))
    meter = CpuMeter(running.pids)
    async with Planes(user_agent="bench") as planes:
        ready = Ready(planes)
        client = planes.join(HOME, pool)
        await planes.synced()
        await all_at_once(client, ready, [TenantId("first")])
        await meter.idle()
        before = [(cpu_seconds(pid), resident_mb(pid)) for pid in running.pids()]
        seconds = await all_at_once(client, ready, [TenantId(f"t-{number}") for number in range(count)])
        await meter.idle()
        after = [(cpu_seconds(pid), resident_mb(pid)) for pid in running.pids()]
    await pool.close()
    shards = len(running.controllers)
    figures = {f"tenants_per_s_{shards}_shards": round(count / seconds, 1)}
    for number, ((cpu, mb), (cpu_after, mb_after)) in enumerate(zip(before, after, strict=True)):
        name = f"shard_{number - 1}_of_{shards}" if number else f"apiserver_{shards}_shards"
        figures[f"{name}_cpu_ms_per_tenant"] = round((cpu_after - cpu) / count * 1000, 2)
        figures[f"{name}_kb_per_tenant"] = round((mb_after - mb) * 1024 / count, 1)
        figures[f"{name}_fresh_mb"] = round(mb, 1)
    return figures


def run(count: int, shards: tuple[int, ...]) -> dict[str, float]:
    figures: dict[str, float] = {"tenants": count}
    for each in shards:
        with processes(each) as running:
            figures |= uvloop.run(measure(running, count))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1 and 2 shards only")
    parser.add_argument("--count", type=int, default=TENANTS, help="so many tenants")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    figures = run(options.count, (1, 2) if options.quick else (1, 2, 4))
    for name, value in figures.items():
        print(f"{name:<32} {value}")
    if options.json:
        options.json.write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
