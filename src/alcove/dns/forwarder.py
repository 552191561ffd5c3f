"""Names that are not the network's own: what the world says of them, asked once and remembered.

Each network has its own memory: what one tenant asked cannot be told from how fast another gets it.
"""

import asyncio
from collections.abc import Callable

from alcove.dns.cache import DnsQuestion, ReplyCache
from alcove.dns.reply import Reply, failure
from alcove.dns.upstream import Overloaded, Upstream, UpstreamError
from alcove.dns.wire import Rcode

WAITING_MAX = 128
"""Questions of one network on their way at once; more are refused, so that others have room."""


class Forwarder:
    def __init__(self, upstream: Upstream, clock: Callable[[], float]) -> None:
        self._upstream = upstream
        self._cache = ReplyCache(clock)
        self._asking: dict[DnsQuestion, asyncio.Future[Reply]] = {}
        self._waiting = 0

    def remembered(self, question: DnsQuestion) -> Reply | None:
        return self._cache.get(question)

    async def ask(self, question: DnsQuestion) -> Reply:
        """Never raises: what cannot be found out is a reply too. The same question is asked once at a time."""
        if self._waiting >= WAITING_MAX:
            return failure(Rcode.SERVFAIL)
        self._waiting += 1
        try:
            asking = self._asking.get(question)
            if asking is None:
                return await self._ask_first(question)
            return await asyncio.shield(asking)
        finally:
            self._waiting -= 1

    async def _ask_first(self, question: DnsQuestion) -> Reply:
        asking: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._asking[question] = asking
        reply = failure(Rcode.SERVFAIL)
        try:
            reply = await self._upstream.ask(question)
            self._cache.put(question, reply)
        except Overloaded:
            pass
        except UpstreamError:
            self._cache.put(question, reply)
        finally:
            del self._asking[question]
            asking.set_result(reply)
        return reply
