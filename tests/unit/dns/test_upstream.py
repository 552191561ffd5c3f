"""Forwarding to real servers that answer correctly, wrongly, late or not at all."""

import asyncio
import socket
import time

import pytest
from dnslib import QTYPE, RR, A, DNSRecord

from alcove.api.ids import TenantId
from alcove.dns.cache import DnsQuestion
from alcove.dns.names import name_of
from alcove.dns.upstream import (
    WAITING_PER_TENANT_MAX,
    Forwarder,
    Overloaded,
    Resolver,
    Unanswered,
    Upstream,
    UpstreamLimits,
)
from alcove.dns.wire import Rcode
from alcove.testing.resolver import Script, one_address, scripted

ACME, BOLT = TenantId("acme"), TenantId("bolt")
QUICK = UpstreamLimits(attempt_seconds=0.2, total_seconds=1.0, in_flight_max=16)
"""Where nobody answers."""
PATIENT = UpstreamLimits(attempt_seconds=1.0, total_seconds=30.0, in_flight_max=16)
QUESTION = DnsQuestion(name_of("www.example.org"), QTYPE.A)
FORWARDED_LIMITS = UpstreamLimits(attempt_seconds=0.1, total_seconds=0.2)


def failing(rcode: int) -> Script:
    def script(query: DNSRecord) -> list[bytes]:
        reply = query.reply()
        reply.header.rcode = rcode
        return [bytes(reply.pack())]

    return script


def forged_then_right(query: DNSRecord) -> list[bytes]:
    """A wrong id, a wrong question, rubbish, a question: none of it counts."""
    wrong = DNSRecord.question("www.example.com", "A").reply()
    wrong.header.id = query.header.id
    wrong.add_answer(RR("www.example.com", QTYPE.A, ttl=60, rdata=A("203.0.113.66")))
    [right] = one_address(query)
    other_id = bytes((right[0] ^ 1,)) + right[1:]
    return [other_id, bytes(wrong.pack()), right[:2] + b"rubbish", bytes(query.pack()), right]


def truncated(query: DNSRecord) -> list[bytes]:
    reply = query.reply()
    reply.header.tc = 1
    return [bytes(reply.pack())]


def silent(_: DNSRecord) -> list[bytes]:
    return []


async def test_the_question_goes_out_and_the_answer_comes_back() -> None:
    async with scripted() as server:
        reply = await Upstream([server.resolver]).ask(
            ACME, DnsQuestion(QUESTION.name, QTYPE.A, dnssec_ok=True, unchecked=True)
        )
        assert reply.counts == (1, 0, 0)
        assert reply.tail.endswith(bytes([198, 51, 100, 7]))
        [asked] = server.asked
        assert (str(asked.q.qname), asked.q.qtype, asked.header.rd, asked.header.cd) == (
            "www.example.org.",
            QTYPE.A,
            1,
            1,
        )
        assert asked.ar[0].edns_do


async def test_ids_differ_and_ports_too() -> None:
    async with scripted() as server:
        upstream = Upstream([server.resolver])
        for _ in range(8):
            await upstream.ask(ACME, QUESTION)
        assert len({query.header.id for query in server.asked}) > 4


async def test_forged_replies_do_not_count() -> None:
    async with scripted(forged_then_right) as server:
        reply = await Upstream([server.resolver], PATIENT).ask(ACME, QUESTION)
        assert reply.tail.endswith(bytes([198, 51, 100, 7]))


async def test_a_truncated_reply_is_queried_again_over_tcp() -> None:
    async with scripted(truncated) as server:
        reply = await Upstream([server.resolver], PATIENT).ask(ACME, QUESTION)
        assert reply.counts[0] == 1
        assert len(server.asked_by_tcp) == 1


async def test_another_server_is_asked_when_one_is_silent_and_preferred_from_then_on() -> None:
    async with scripted(silent) as mute, scripted() as speaking:
        upstream = Upstream([mute.resolver, speaking.resolver], PATIENT)
        for _ in range(3):
            assert (await upstream.ask(ACME, QUESTION)).counts[0] == 1
        assert len(mute.asked) == 1
        assert len(speaking.asked) == 3


@pytest.mark.parametrize("rcode", [Rcode.SERVFAIL, Rcode.REFUSED])
async def test_another_server_is_asked_when_one_fails(rcode: Rcode) -> None:
    async with scripted(failing(rcode)) as failed, scripted() as speaking:
        reply = await Upstream([failed.resolver, speaking.resolver], PATIENT).ask(ACME, QUESTION)
        assert reply.rcode == Rcode.NOERROR


async def test_a_failure_of_all_servers_is_returned() -> None:
    async with scripted(failing(Rcode.REFUSED)) as one, scripted(failing(Rcode.SERVFAIL)) as two:
        reply = await Upstream([one.resolver, two.resolver], PATIENT).ask(ACME, QUESTION)
        assert reply.rcode == Rcode.SERVFAIL


async def test_a_name_that_does_not_exist_is_an_answer() -> None:
    async with scripted(failing(Rcode.NXDOMAIN)) as server, scripted() as other:
        reply = await Upstream([server.resolver, other.resolver], PATIENT).ask(ACME, QUESTION)
        assert reply.rcode == Rcode.NXDOMAIN
        assert other.asked == []


async def test_no_server_answers() -> None:
    async with scripted(silent) as server:
        with pytest.raises(Unanswered):
            await Upstream([server.resolver], QUICK).ask(ACME, QUESTION)
        assert len(server.asked) == 2


async def test_no_server_listens_or_none_is_configured() -> None:
    with pytest.raises(Unanswered):
        await Upstream([Resolver("127.0.0.1", 1)], QUICK).ask(ACME, QUESTION)
    with pytest.raises(Unanswered):
        await Upstream([], QUICK).ask(ACME, QUESTION)


async def test_too_many_questions_at_once_are_refused() -> None:
    async with scripted(silent) as server:
        upstream = Upstream([server.resolver], QUICK)
        results = await asyncio.gather(
            *(upstream.ask(ACME, QUESTION) for _ in range(3)), return_exceptions=True
        )
        assert sorted(type(each).__name__ for each in results) == ["Overloaded", "Unanswered", "Unanswered"]
        with pytest.raises(Unanswered):
            await upstream.ask(ACME, QUESTION)
    assert issubclass(Overloaded, Exception)


async def test_however_many_tenants_flood_the_upstream_another_one_gets_slots() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as silent_server:
        silent_server.bind(("127.0.0.1", 0))
        limits = UpstreamLimits(attempt_seconds=0.5, total_seconds=0.5)
        upstream = Upstream([Resolver(*silent_server.getsockname())], limits)
        floods = [
            asyncio.ensure_future(upstream.ask(TenantId(f"t{number}"), QUESTION))
            for number in range(20)
            for _ in range(150)
        ]
        quiet = [asyncio.ensure_future(upstream.ask(BOLT, QUESTION)) for _ in range(8)]
        results = await asyncio.gather(*quiet, return_exceptions=True)
        assert [type(each) for each in results] == [Unanswered] * 8, "all of them were sent"
        flooded = await asyncio.gather(*floods, return_exceptions=True)
        # How many depends on how fast they are asked: those that nobody answers free their slots.
        assert Overloaded in map(type, flooded), "there were more than slots"


async def test_all_networks_of_a_tenant_share_its_waiting_queries() -> None:
    async with scripted() as server:
        upstream = Upstream([server.resolver])
        networks = [Forwarder(ACME, upstream, time.monotonic) for _ in range(4)]
        asked = [each.ask(QUESTION) for each in networks for _ in range(WAITING_PER_TENANT_MAX)]
        replies = await asyncio.gather(*asked)
        assert sum(reply.counts[0] for reply in replies) == WAITING_PER_TENANT_MAX


async def test_a_tenants_share_of_the_upstream_is_an_eighth() -> None:
    async with scripted(silent) as server:
        upstream = Upstream([server.resolver], FORWARDED_LIMITS)
        asked = [upstream.ask(ACME, QUESTION) for _ in range(200)]
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(each, Unanswered) for each in results) == 128


async def test_the_same_question_is_asked_once() -> None:
    async with scripted() as server:
        forwarder = Forwarder(ACME, Upstream([server.resolver]), time.monotonic)
        assert forwarder.cached(QUESTION) is None
        replies = await asyncio.gather(*(forwarder.ask(QUESTION) for _ in range(20)))
        assert [reply.counts[0] for reply in replies] == [1] * 20
        assert forwarder.cached(QUESTION) is not None
        assert len(server.asked) == 1


async def test_networks_do_not_share_their_caches() -> None:
    async with scripted() as server:
        upstream = Upstream([server.resolver])
        one, other = Forwarder(ACME, upstream, time.monotonic), Forwarder(ACME, upstream, time.monotonic)
        await one.ask(QUESTION)
        assert other.cached(QUESTION) is None


async def test_a_timeout_is_cached_as_a_failure() -> None:
    def silent(_: DNSRecord) -> list[bytes]:
        return []

    async with scripted(silent) as server:
        forwarder = Forwarder(ACME, Upstream([server.resolver], FORWARDED_LIMITS), time.monotonic)
        assert (await forwarder.ask(QUESTION)).rcode == Rcode.SERVFAIL
        remembered = forwarder.cached(QUESTION)
        assert remembered is not None
        assert remembered.rcode == Rcode.SERVFAIL


async def test_a_flood_of_questions_is_refused_beyond_a_bound() -> None:
    async with scripted() as server:
        forwarder = Forwarder(ACME, Upstream([server.resolver]), time.monotonic)
        questions = [
            DnsQuestion(name_of(f"n{number}.example.org"), QTYPE.A)
            for number in range(WAITING_PER_TENANT_MAX + 10)
        ]
        replies = await asyncio.gather(*map(forwarder.ask, questions))
        assert sum(reply.rcode == Rcode.SERVFAIL for reply in replies) == 10


async def test_a_cancelled_query_does_not_cancel_others() -> None:
    async with scripted() as server:
        forwarder = Forwarder(ACME, Upstream([server.resolver]), time.monotonic)
        first = asyncio.ensure_future(forwarder.ask(QUESTION))
        second = asyncio.ensure_future(forwarder.ask(QUESTION))
        third = asyncio.ensure_future(forwarder.ask(QUESTION))
        await asyncio.sleep(0)
        second.cancel()
        assert (await first).counts[0] == 1
        assert (await third).counts[0] == 1
