"""Forwards queries for names outside the network's zone to the upstream servers, and caches the replies.

Each network has a separate cache, so that a tenant cannot learn another tenant's queries from response times.
"""

import asyncio
from collections.abc import Callable

from alcove.dns.cache import DnsQuestion, ReplyCache
from alcove.dns.reply import Reply, failure
from alcove.dns.upstream import Overloaded, Upstream, UpstreamError
from alcove.dns.wire import Rcode

WAITING_MAX = 128
"""Concurrent upstream queries of one network; more fail with SERVFAIL, so that other networks are not
affected."""


class Forwarder:
    def __init__(self, upstream: Upstream, clock: Callable[[], float]) -> None:
        self._upstream = upstream
        self._cache = ReplyCache(clock)
        self._pending: dict[DnsQuestion, asyncio.Future[Reply]] = {}
        self._waiting = 0

    def cached(self, question: DnsQuestion) -> Reply | None:
        return self._cache.get(question)

    async def ask(self, question: DnsQuestion) -> Reply:
        """The upstream reply, or SERVFAIL; never raises. Concurrent queries of the same question are sent
        once."""
        if self._waiting >= WAITING_MAX:
            return failure(Rcode.SERVFAIL)
        self._waiting += 1
        try:
            pending = self._pending.get(question)
            if pending is None:
                return await self._ask_upstream(question)
            return await asyncio.shield(pending)
        finally:
            self._waiting -= 1

    async def _ask_upstream(self, question: DnsQuestion) -> Reply:
        pending: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._pending[question] = pending
        reply = failure(Rcode.SERVFAIL)
        try:
            reply = await self._upstream.ask(question)
            self._cache.put(question, reply)
        except Overloaded:
            pass
        except UpstreamError:
            self._cache.put(question, reply)
        finally:
            del self._pending[question]
            pending.set_result(reply)
        return reply
