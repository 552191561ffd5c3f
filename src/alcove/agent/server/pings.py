"""Pings to clients whose input nobody takes.

A client that dies while it has more to send than anybody takes leaves its machine with unsent bytes, and the end of the
connection waits behind them: to whoever does not read, the connection looks open for minutes. Bytes sent to such a client
are answered by a reset at once. Where input is read, the end of a client is seen without pings.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

PING_SECONDS = 15.0


@asynccontextmanager
async def pinging(ping: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Calls `ping` at regular intervals until the block ends or `ping` raises ConnectionError. `ping` sends something only
    if input waits to be taken."""
    task = asyncio.create_task(_repeat(ping))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _repeat(ping: Callable[[], Awaitable[None]]) -> None:
    with suppress(ConnectionError):
        while True:
            await asyncio.sleep(PING_SECONDS)
            await ping()
