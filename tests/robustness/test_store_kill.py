"""A server killed with `kill -9` in the middle of writing loses nothing it acknowledged.

A child process writes as fast as it can and prints each acknowledgement; at a random moment we kill
it, or the process that owns its file, or both, open the file, and compare what is there with what was
said. Several lives, one file.
"""

import asyncio
import os
import random
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.store.base import StoreEvent, StoreRecord, StoreUnavailable, WriteOp
from alcove.store.sqlite import SqliteStore

KILLS_MIN = 5
ACKNOWLEDGED_MIN = 1_000
WRITERS = 16
PAIRS = GroupResource("", "pairs")


class Acknowledged(Struct, frozen=True):
    """One line of the child: what it wrote, at which revision."""

    life: int
    writer: int
    step: int
    revision: Revision


def key(life: int, writer: int, half: str) -> Key:
    return Key(PAIRS, TenantId(f"life-{life}"), f"writer-{writer}", half)


def body(life: int, writer: int, step: int) -> bytes:
    return f"{life} {writer} {step} ".encode().ljust(1_500, b".")


async def write_for_ever(path: Path, life: int) -> None:
    """Each writer changes both halves of its pair, again and again; an acknowledgement is one line."""
    store = await SqliteStore.open(path)
    os.write(1, f"{store.worker_pid}\n".encode())

    async def writer(number: int) -> None:
        revision = Revision(0)
        for step in range(1_000_000):
            text = body(life, number, step)
            halves = [WriteOp(key(life, number, half), text, revision) for half in ("left", "right")]
            revision = await store.write(halves)
            os.write(1, f"{life} {number} {step} {revision}\n".encode())

    # Killed under us, the process that owns the file makes the store unavailable: so this life ends.
    with suppress(StoreUnavailable):
        await asyncio.gather(*(writer(number) for number in range(WRITERS)))


async def one_life(path: Path, life: int, moment: random.Random) -> list[Acknowledged]:
    """Runs the child for a while, kills it, and returns what it acknowledged."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, __file__, str(path), str(life), stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    worker = int(await child.stdout.readline())
    reading = asyncio.create_task(child.stdout.read())
    await asyncio.sleep(moment.uniform(0.01, 0.4))
    for victim in moment.choice([[child.pid], [worker], [child.pid, worker], [worker, child.pid]]):
        with suppress(ProcessLookupError):  # It may have ended with the one that was killed first.
            os.kill(victim, signal.SIGKILL)
    lines = (await reading).splitlines(keepends=True)
    await child.wait()
    # The kill may have cut the last line short: then nobody heard it.
    whole = [line for line in lines if line.endswith(b"\n")]
    return [Acknowledged(*map(int, line.split())) for line in whole]  # type: ignore[arg-type]


async def state_and_history(path: Path) -> tuple[list[StoreRecord], list[StoreEvent]]:
    store = await SqliteStore.open(path)
    snapshot = await store.snapshot()
    events: list[StoreEvent] = []
    async with asyncio.timeout(90), store.feed(Revision(0)) as feed:
        while not events or events[-1].revision < snapshot.revision:
            events += await anext(feed)
    await store.close()
    return list(snapshot.records), events


def check_pairs(records: Iterable[StoreRecord]) -> None:
    """No transaction is written by half."""
    halves: dict[tuple[str, str], list[StoreRecord]] = {}
    for record in records:
        halves.setdefault((record.key.tenant, record.key.namespace), []).append(record)
    for left, right in halves.values():
        assert (left.revision, left.body) == (right.revision, right.body)


def check_history(events: list[StoreEvent], acknowledged: list[Acknowledged]) -> None:
    """Every acknowledged write exists once, at its revision, in order; no step of a writer is missing."""
    written: dict[Revision, tuple[int, int, int]] = {}
    for event in events[::2]:
        life, writer, step = map(int, event.body.split()[:3])
        assert event.revision not in written
        written[event.revision] = (life, writer, step)
    assert list(written) == sorted(written)
    for ack in acknowledged:
        assert written[ack.revision] == (ack.life, ack.writer, ack.step)
    steps: dict[tuple[int, int], list[int]] = {}
    for life, writer, step in written.values():
        steps.setdefault((life, writer), []).append(step)
    assert all(found == list(range(len(found))) for found in steps.values())


async def test_acknowledged_writes_survive_kill_9_under_load(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    moment = random.Random()
    acknowledged: list[Acknowledged] = []
    life = 0
    while life < KILLS_MIN or len(acknowledged) < ACKNOWLEDGED_MIN:
        acknowledged += await one_life(path, life, moment)
        records, events = await state_and_history(path)
        check_pairs(records)
        check_history(events, acknowledged)
        assert len(events) == 2 * len({event.revision for event in events})
        life += 1


if __name__ == "__main__":
    asyncio.run(write_for_ever(Path(sys.argv[1]), int(sys.argv[2])))
