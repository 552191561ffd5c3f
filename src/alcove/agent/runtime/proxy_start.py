"""Starts a container in gVisor: its proxy process does, when it is signalled (`flavors`)."""

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from alcove.agent.runtime.base import CreateFailed
from alcove.agent.runtime.bundle import Bundle
from alcove.agent.runtime.flavors import DONE, GO

_CHECK_SECONDS = 0.1
"""How often a container that is being started is looked at, if nothing is heard of it: its start may fail."""
_SIGNAL_SECONDS = 0.01
"""How often it is tried to signal a proxy process that is not reading yet, which only those of an earlier agent are not."""


async def start(bundle: Bundle) -> None:
    """Returns when it is started, also if it has exited since. Raises CreateFailed."""
    is_signalled = False
    with _done_event(bundle) as done:
        while not bundle.is_started():
            is_signalled = is_signalled or _signal_start(bundle)
            with suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), _CHECK_SECONDS if is_signalled else _SIGNAL_SECONDS)


@contextmanager
def _done_event(bundle: Bundle) -> Iterator[asyncio.Event]:
    """An event that is set when the proxy process has started the container; never for one of an earlier agent."""
    done, loop = asyncio.Event(), asyncio.get_running_loop()
    try:
        descriptor = os.open(bundle.path / DONE, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        yield done
        return

    def hear() -> None:
        loop.remove_reader(descriptor)
        done.set()

    loop.add_reader(descriptor, hear)
    try:
        yield done
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _signal_start(bundle: Bundle) -> bool:
    """Signals the proxy process to start the container; False if it is not reading yet."""
    try:
        pipe = os.open(bundle.path / GO, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return False
        raise CreateFailed(f"failed to signal the start of {bundle.id}: {error}") from error
    try:
        os.write(pipe, b"\n")
    finally:
        os.close(pipe)
    return True
