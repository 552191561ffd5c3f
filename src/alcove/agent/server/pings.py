"""Pings to clients whose input is not being read.

If a client dies while its input is not being read, its machine still has unsent bytes, and the FIN waits
behind them: the connection looks open for minutes. Sending to such a client is answered by an immediate
reset. Where input is read, the end of a client is noticed without pings.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

PING_SECONDS = 15.0


@asynccontextmanager
async def pinging(ping: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Calls `ping` at regular intervals until the block ends or `ping` raises ConnectionError. `ping` sends
    something only if unread input is waiting."""
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
