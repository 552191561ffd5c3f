"""TLS handshakes with an Ingress, as fast as it computes them, from several addresses of this machine.

    with HandshakeFlood("10.249.1.2", "mallory.example", ["203.0.113.1", …]) as flood:
        …
    assert flood.made

A process of its own, with a low priority: these clients have machines of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Sequence

NICE = 10
AT_ONCE = 16
"""Of each address: as many as the Ingress computes for one."""
STOP_SECONDS_MAX = 10.0
READY = b"ready\n"


async def run(server: str, host: str, sources: Sequence[str]) -> None:
    """Until SIGTERM; then it writes how many handshakes were completed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    made = 0

    async def repeat(source: str) -> None:
        nonlocal made
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(
                    server, 443, ssl=context, server_hostname=host, local_addr=(source, 0)
                )
                made += 1
                writer.transport.abort()

    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    tasks = [asyncio.create_task(repeat(source)) for source in sources for _ in range(AT_ONCE)]
    os.write(1, READY)
    await stopping.wait()
    for task in tasks:
        task.cancel()
    os.write(1, str(made).encode())
    os._exit(0)


class HandshakeFlood:
    def __init__(self, server: str, host: str, sources: Sequence[str]) -> None:
        self._words = (server, host, *sources)
        self.made = 0
        """Handshakes that were completed, known after the block."""

    def __enter__(self) -> HandshakeFlood:
        module = "alcove.testing.abuse.handshakes"
        words = ["nice", "-n", str(NICE), sys.executable, "-m", module, *self._words]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == READY, "the clients did not start"
        return self

    def __exit__(self, *_exc: object) -> None:
        self._process.terminate()
        try:
            output, _ = self._process.communicate(timeout=STOP_SECONDS_MAX)
        finally:
            self._process.kill()
            self._process.wait()
        self.made = int(output)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], sys.argv[3:]))
