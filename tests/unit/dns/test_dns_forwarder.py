"""Names of the world: asked once, remembered per network, bounded."""

import asyncio
import time

from dnslib import QTYPE, DNSRecord

from alcove.dns.cache import DnsQuestion
from alcove.dns.names import name_of
from alcove.dns.upstream import WAITING_MAX, Forwarder, Upstream, UpstreamLimits
from alcove.dns.wire import Rcode
from alcove.testing.resolver import scripted

QUICK = UpstreamLimits(attempt_seconds=0.1, total_seconds=0.2)
QUESTION = DnsQuestion(name_of("www.example.org"), QTYPE.A)


async def test_the_same_question_is_asked_once() -> None:
    async with scripted() as server:
        outside = Forwarder(Upstream([server.resolver]), time.monotonic)
        assert outside.cached(QUESTION) is None
        told = await asyncio.gather(*(outside.ask(QUESTION) for _ in range(20)))
        assert [reply.counts[0] for reply in told] == [1] * 20
        assert outside.cached(QUESTION) is not None
        assert len(server.asked) == 1


async def test_networks_do_not_share_what_they_remember() -> None:
    async with scripted() as server:
        upstream = Upstream([server.resolver])
        one, other = Forwarder(upstream, time.monotonic), Forwarder(upstream, time.monotonic)
        await one.ask(QUESTION)
        assert other.cached(QUESTION) is None


async def test_silence_is_a_failure_that_is_not_asked_for_again_at_once() -> None:
    def silent(_: DNSRecord) -> list[bytes]:
        return []

    async with scripted(silent) as server:
        outside = Forwarder(Upstream([server.resolver], QUICK), time.monotonic)
        assert (await outside.ask(QUESTION)).rcode == Rcode.SERVFAIL
        remembered = outside.cached(QUESTION)
        assert remembered is not None
        assert remembered.rcode == Rcode.SERVFAIL


async def test_a_flood_of_questions_is_refused_beyond_a_bound() -> None:
    async with scripted() as server:
        outside = Forwarder(Upstream([server.resolver]), time.monotonic)
        questions = [
            DnsQuestion(name_of(f"n{number}.example.org"), QTYPE.A) for number in range(WAITING_MAX + 10)
        ]
        told = await asyncio.gather(*map(outside.ask, questions))
        assert sum(reply.rcode == Rcode.SERVFAIL for reply in told) == 10


async def test_one_who_gives_up_does_not_take_the_answer_from_others() -> None:
    async with scripted() as server:
        outside = Forwarder(Upstream([server.resolver]), time.monotonic)
        first = asyncio.ensure_future(outside.ask(QUESTION))
        second = asyncio.ensure_future(outside.ask(QUESTION))
        third = asyncio.ensure_future(outside.ask(QUESTION))
        await asyncio.sleep(0)
        second.cancel()
        assert (await first).counts[0] == 1
        assert (await third).counts[0] == 1
