"""The controllers' figures: `python -m bench.controllers [--quick] [--json FILE]`.

Tenants coming and going (`bench.tenants`), workloads getting their pods (`bench.workloads`), and the memory
of the controllers' process after both, with the tenants and the flood's objects still there. Each part
has an API server and controllers of its own, as a user starts them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path

import uvloop

from alcove.api.ids import SYSTEM
from alcove.client import kubeconfig
from alcove.client.client import Client
from alcove.client.pool import HttpPool
from alcove.client.resources import TENANTS
from bench import tenants, workloads
from bench.servers import resident_mb


async def make_tenants(path: Path, count: int) -> None:
    """Beside which the workloads run: they cost memory."""
    pool = HttpPool(kubeconfig.load(path), connections_max=8)
    client = Client(pool)
    for start in range(0, count, 50):
        names = [f"idle-{number}" for number in range(start, min(start + 50, count))]
        await asyncio.gather(
            *(client.create(SYSTEM, TENANTS, {"metadata": {"name": name}}) for name in names)
        )
    await pool.close()


def run(*, tenant_count: int, rounds: int, flood_max: int) -> dict[str, float]:
    figures = tenants.run(tenant_count)
    with tenants.control_plane() as (server, controllers):
        uvloop.run(make_tenants(server.admin_kubeconfig, tenant_count))
        time.sleep(tenants.SETTLE_SECONDS)
        found = uvloop.run(workloads.measure(server.admin_kubeconfig, rounds=rounds, flood_max=flood_max))
        time.sleep(tenants.SETTLE_SECONDS)
        memory = resident_mb(controllers.pid)
    small = sorted(found.small_ms)
    return {
        **figures,
        "deployment_1000_s": round(found.deployment_s, 2),
        "small_tenant_rounds": len(small),
        "small_tenant_p50_ms": round(small[len(small) // 2], 1),
        "small_tenant_p99_ms": round(small[min(len(small) - 1, int(len(small) * 0.99))], 1),
        "flood_objects": found.flooded,
        "rss_mb": round(memory, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="fewer of everything, within a minute")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    if options.quick:
        figures = run(tenant_count=40, rounds=50, flood_max=4_000)
    else:
        figures = run(tenant_count=1_000, rounds=400, flood_max=20_000)
    for name, value in figures.items():
        print(f"{name:<32} {value}")
    if options.json:
        options.json.write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
