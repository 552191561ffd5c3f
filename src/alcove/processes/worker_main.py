"""A worker of an API server: `python -m alcove.processes.worker_main PARENT INDEX CHANNEL REVISION COUNTS`.

Started by `worker_pool`, which passes the descriptors of the channel and of the shared memory.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import pickle
import signal
import socket
import sys

from alcove.apiserver.worker_counts import WorkerCountsMemory
from alcove.component import logs
from alcove.component.stall_recorder import record_stalls
from alcove.component.tasks import BackgroundTasks
from alcove.processes.apiserver import serve
from alcove.processes.memory import bound_collections
from alcove.processes.open_files import raise_open_files_limit
from alcove.processes.priorities import SERVER_RAISED_BY, raise_thread_priority
from alcove.processes.worker_context import WorkerContext
from alcove.processes.worker_pool import WorkerSetup
from alcove.store.base import StoreError, StoreUnavailable
from alcove.store.shared_revision import SharedRevision
from alcove.store.worker_channel import WorkerChannel

log = logging.getLogger(__name__)

PR_SET_PDEATHSIG = 1


async def run(index: int, end: socket.socket, revision: int, counts: int) -> int:
    """Serves until SIGTERM. Returns the process' exit code."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    channel = WorkerChannel()
    await channel.connect(end)
    # Pickled by the parent, which is the same program.
    setup: WorkerSetup = pickle.loads(await channel.call("setup"))
    logs.configure(f"apiserver-{index}", setup.log_level, setup.log_format)
    memory = WorkerCountsMemory(counts, setup.counts_key, setup.workers)
    worker = WorkerContext(index, setup.port, channel, SharedRevision(revision), memory)
    try:
        await _serve(setup, worker, stop)
    except StoreError as error:
        channel.note("failed", str(error))
        return 1
    except OSError as error:
        where = f"{setup.config.host}:{setup.port}"
        channel.note("failed", f"cannot serve on {where}: {error.strerror or error}")
        return 1
    except ExceptionGroup as errors:
        lost, others = errors.split(StoreError)
        if lost is None or others is not None:
            raise
        log.critical("lost the store; exiting", extra={"error": str(lost.exceptions[0])})
        return 1
    return 0


async def _serve(setup: WorkerSetup, worker: WorkerContext, stop: asyncio.Event) -> None:
    async with serve(setup.config, worker) as running, BackgroundTasks() as tasks:
        worker.channel.note("ready")
        tasks.fatal("watch cache", running.lost())
        tasks.fatal("parent process", _lost(worker.channel))
        if setup.stalls is not None:
            tasks.fatal(
                "stall recorder", record_stalls(setup.stalls.with_name(f"{setup.stalls.name}.{worker.index}"))
            )
        await stop.wait()
        tasks.cancel()


async def _lost(channel: WorkerChannel) -> None:
    await asyncio.wait([channel.closed])
    raise StoreUnavailable("the parent process has exited")


def main(arguments: list[str]) -> int:
    import uvloop

    parent, index, channel, revision, counts = map(int, arguments)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return 1  # It exited before prctl.
    # An interrupt of the terminal is the parent's, which then stops its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    bound_collections()
    raise_open_files_limit()
    raise_thread_priority(SERVER_RAISED_BY)
    return int(uvloop.run(run(index, socket.socket(fileno=channel), revision, counts)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
