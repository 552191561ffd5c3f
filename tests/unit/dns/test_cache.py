"""Cached replies: their time to live and their number."""

from dnslib import QTYPE, RR, SOA, A, DNSRecord
from hypothesis import given
from hypothesis import strategies as st

from alcove.dns.cache import (
    ENTRY_BYTES_OVERHEAD,
    FAILURE_SECONDS,
    POSITIVE_SECONDS_MAX,
    DnsQuestion,
    ReplyCache,
    lifetime_seconds,
)
from alcove.dns.names import name_of
from alcove.dns.reply import Reply, failure, read
from alcove.dns.wire import Rcode


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def question(number: int = 0) -> DnsQuestion:
    return DnsQuestion(name_of(f"n{number}.example.org"), 1)


def positive(*ttls: int) -> Reply:
    record = DNSRecord.question("web.example.org", "A").reply()
    for ttl in ttls:
        record.add_answer(RR("web.example.org", QTYPE.A, ttl=ttl, rdata=A("192.0.2.1")))
    return read(record.pack())[1]


def negative(ttl: int, minimum: int, rcode: int = 3) -> Reply:
    record = DNSRecord.question("web.example.org", "A").reply()
    record.header.rcode = rcode
    record.add_auth(RR("example.org", QTYPE.SOA, ttl=ttl, rdata=SOA("ns.", "admin.", (1, 2, 3, 4, minimum))))
    return read(record.pack())[1]


def test_how_long_replies_last() -> None:
    assert lifetime_seconds(positive(60, 30, 90)) == 30
    assert lifetime_seconds(positive(10**6)) == POSITIVE_SECONDS_MAX
    assert lifetime_seconds(positive(0)) == 0
    assert lifetime_seconds(positive(2**31 + 5)) == 0
    assert lifetime_seconds(negative(60, 20)) == 20
    assert lifetime_seconds(negative(10, 20, rcode=0)) == 10
    assert lifetime_seconds(Reply(Rcode.NXDOMAIN)) == 0
    assert lifetime_seconds(failure(Rcode.SERVFAIL)) == FAILURE_SECONDS


def test_a_reply_ages_and_ends() -> None:
    clock = Clock()
    cache = ReplyCache(clock)
    cache.put(question(), positive(60, 30))
    clock.now += 29.5
    aged = cache.get(question())
    assert aged is not None
    assert [int.from_bytes(aged.tail[at : at + 4], "big") for at in aged.ttls] == [31, 1]
    clock.now += 0.5
    assert cache.get(question()) is None
    assert (len(cache), cache.bytes) == (0, 0)


def test_replies_that_must_not_be_cached_are_not() -> None:
    cache = ReplyCache(Clock())
    cache.put(question(), positive(0))
    assert cache.get(question()) is None


def test_questions_that_differ_in_flags_differ() -> None:
    cache = ReplyCache(Clock())
    cache.put(question(), positive(60))
    assert cache.get(DnsQuestion(question().name, 1, dnssec_ok=True)) is None
    assert cache.get(DnsQuestion(question().name, 1, unchecked=True)) is None


def test_the_least_recently_used_reply_is_evicted_first() -> None:
    cache = ReplyCache(Clock(), entries_max=2)
    cache.put(question(1), positive(60))
    cache.put(question(2), positive(60))
    assert cache.get(question(1)) is not None
    cache.put(question(3), positive(60))
    assert cache.get(question(2)) is None
    assert cache.get(question(1)) is not None


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 40), st.integers(1, 100)), max_size=60))
def test_a_cache_stays_within_its_bounds(puts: list[tuple[int, int, int]]) -> None:
    clock = Clock()
    cache = ReplyCache(clock, entries_max=8, bytes_max=8_000)
    for number, answers, ttl in puts:
        cache.put(question(number), positive(*[ttl] * answers))
        clock.now += 7
        cache.get(question(number // 2))
        assert len(cache) <= 8
        assert len(cache) * ENTRY_BYTES_OVERHEAD <= cache.bytes <= 8_000
