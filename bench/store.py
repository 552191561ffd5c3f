"""What the embedded store does per second, beside what the disk can do at all.

    python -m bench.store [--seconds 2] [--folder .] [--json FILE]

The figures of plain writes are taken in turns with a bare write+fdatasync loop on the same disk, whose
median is printed with them: disks differ, ratios hold.
"""

import argparse
import asyncio
import os
import resource
import statistics
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter

import orjson
import uvloop

from alcove.api.ids import Key, Revision, TenantId
from alcove.api.resources import PODS
from alcove.store.base import WriteOp
from alcove.store.sqlite import SqliteStore

BODY = os.urandom(1_700)
ROUNDS = 3
Figures = dict[str, float]


def key(number: int) -> Key:
    return Key(
        PODS, TenantId(f"tenant-{number % 1_000}"), "default", f"web-{number * 2_654_435_761 % 2**32:08x}"
    )


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def fdatasyncs(folder: Path, seconds: float) -> float:
    """How many one-page appends per second the disk makes durable, one after the other."""
    path = folder / "fdatasync"
    page = os.urandom(4_096)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    count, end = 0, perf_counter() + seconds
    while perf_counter() < end:
        os.pwrite(descriptor, page, count % 1_000 * 4_096)
        os.fdatasync(descriptor)
        count += 1
    os.close(descriptor)
    path.unlink()
    return count / seconds


class Load:
    """Writers that create one object after the other, each waiting for its own."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._next = 0

    async def run(self, writers: int, seconds: float) -> tuple[float, list[float]]:
        """Writes per second, and each one's latency."""
        latencies: list[float] = []
        end = perf_counter() + seconds
        started = perf_counter()
        await asyncio.gather(*(self._writer(latencies, end) for _ in range(writers)))
        return len(latencies) / (perf_counter() - started), latencies

    async def _writer(self, latencies: list[float], end: float) -> None:
        while (started := perf_counter()) < end:
            self._next += 1
            await self._store.write([WriteOp(key(self._next), BODY, expected=Revision(0))])
            latencies.append(perf_counter() - started)


async def writes(store: SqliteStore, folder: Path, seconds: float) -> Figures:
    load, found = Load(store), Figures()
    syncs: list[float] = []
    for writers in (1, 16, 64):
        rates, latencies = list[float](), list[float]()
        for _ in range(ROUNDS):
            syncs.append(fdatasyncs(folder, seconds / 4))
            before = resource.getrusage(resource.RUSAGE_SELF)
            rate, taken = await load.run(writers, seconds)
            after = resource.getrusage(resource.RUSAGE_SELF)
            rates.append(rate)
            latencies += taken
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            found[f"writes_{writers}_cpu_us"] = cpu * 1e6 / len(taken)
        found[f"writes_{writers}_per_s"] = statistics.median(rates)
        found[f"writes_{writers}_p50_ms"] = percentile(latencies, 0.5) * 1e3
        found[f"writes_{writers}_p99_ms"] = percentile(latencies, 0.99) * 1e3
    found["fdatasync_per_s"] = statistics.median(syncs)
    return found


async def beside_busy_loop(store: SqliteStore, seconds: float) -> Figures:
    """Sixteen writers while the loop spends 0.2 ms of every turn on something else, as a server does."""
    stop = False

    async def work() -> None:
        while not stop:
            until = perf_counter() + 0.0002
            while perf_counter() < until:
                pass
            await asyncio.sleep(0)

    busy = asyncio.create_task(work())
    load = Load(store)
    load._next = 10_000_000
    rate, latencies = await load.run(16, seconds)
    stop = True
    await busy
    return {"busy_writes_16_per_s": rate, "busy_writes_16_p50_ms": percentile(latencies, 0.5) * 1e3}


async def beside_reads(store: SqliteStore, seconds: float) -> Figures:
    """Sixteen writers while everything is read again and again."""

    async def read() -> None:
        while True:
            await store.snapshot()

    reading = asyncio.create_task(read())
    load = Load(store)
    load._next = 30_000_000
    rate, latencies = await load.run(16, seconds)
    reading.cancel()
    return {"read_writes_16_per_s": rate, "read_writes_16_p99_ms": percentile(latencies, 0.99) * 1e3}


async def reads(store: SqliteStore) -> Figures:
    async def timed(what: Callable[[], Awaitable[object]]) -> float:
        started = perf_counter()
        await what()
        return (perf_counter() - started) * 1e3

    whole = await store.snapshot()
    count = len(whole.records)
    tenant = TenantId("tenant-7")
    found = Figures()
    found["snapshot_all_us_per_object"] = await timed(store.snapshot) * 1e3 / count
    found["snapshot_tenant_ms"] = await timed(lambda: store.snapshot(resource=PODS, tenant=tenant))
    at = Revision(max(whole.revision - 1_000, 0))
    found["snapshot_tenant_old_ms"] = await timed(lambda: store.snapshot(at, resource=PODS, tenant=tenant))
    return found


async def compaction(store: SqliteStore, seconds: float) -> Figures:
    """What writers feel while everything they overwrote is removed."""
    count = 5_000
    for start in range(0, count, 100):
        await asyncio.gather(*(store.write([WriteOp(key(start + n), BODY)]) for n in range(100)))
    load = Load(store)
    load._next = 20_000_000
    started = perf_counter()
    compact = asyncio.create_task(store.compact(await store.revision()))
    _, latencies = await load.run(4, seconds)
    await compact
    return {
        "compaction_writes_p99_ms": percentile(latencies, 0.99) * 1e3,
        "compaction_s": perf_counter() - started,
    }


async def opening(path: Path) -> Figures:
    started = perf_counter()
    store = await SqliteStore.open(path)
    taken = perf_counter() - started
    objects = len((await store.snapshot()).records)
    await store.close()
    return {"objects": objects, "open_ms": taken * 1e3, "file_mb": size(path) / 1e6}


def size(path: Path) -> int:
    return path.stat().st_size


async def measure(folder: Path, seconds: float) -> Figures:
    path = folder / "bench.db"
    commits: list[int] = []
    store = await SqliteStore.open(path, observe=lambda _seconds, count: commits.append(count))
    try:
        found = await writes(store, folder, seconds)
        found |= await beside_busy_loop(store, seconds)
        found |= await reads(store)
        found |= await beside_reads(store, seconds)
        found |= await compaction(store, seconds)
    finally:
        await store.close()
    return found | await opening(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="per figure and round")
    parser.add_argument("--folder", type=Path, default=Path(), help="where to write: on the disk to measure")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        found = uvloop.run(measure(Path(folder), asked.seconds))
    for name, value in found.items():
        print(f"{name:32} {value:12,.2f}")
    if asked.json:
        asked.json.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2))


if __name__ == "__main__":
    main()
